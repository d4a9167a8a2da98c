#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace fovea::cli {

// Lays out --help: two examples, what the verb does, its options; one screen of 80 columns.
class HelpPage : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The group of options that every verb has: one line of help for all of them.
inline constexpr const char* kCommonGroup = "common";

// Breaks text at spaces so that every line fits `width`; lines after the first start with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace fovea::cli

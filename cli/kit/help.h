#pragma once

#include <cstddef>
#include <string>

#include "cli/kit/arguments.h"

namespace fovea::cli {

inline constexpr std::size_t kPageWidth = 80;

// What --help prints: two examples, what the verb does, its options; one screen of 80 columns.
std::string help_page(const Arguments& verb);

// Every verb with its options, for `man`: roff, of the same texts.
std::string man_page(const Arguments& program, const std::string& version);

// Breaks text at spaces so that every line fits `width`; lines after the first start with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace fovea::cli

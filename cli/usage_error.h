#pragma once

#include <CLI/CLI.hpp>

#include "fovea/error.h"

namespace fovea::cli {

// What CLI11 could not parse, in our words: what, at which verb, and the nearest name or the help page to look at.
Error usage_error(const CLI::App& root, const CLI::ParseError& error);

// "fovea bench attention": the verb that was being parsed.
std::string chosen_path(const CLI::App& root);

}  // namespace fovea::cli

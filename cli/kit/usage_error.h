#pragma once

#include "cli/kit/arguments.h"
#include "fovea/error.h"

namespace fovea::cli {

// What does not fit, in our words: what, at which verb, and the nearest name or the help page to look at.
Error usage_error(const CommandLine& line, const Parsed& parsed);

}  // namespace fovea::cli

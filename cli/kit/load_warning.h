#pragma once

#include <string>
#include <vector>

#include "cli/kit/console.h"
#include "measure/load.h"

namespace fovea::cli {

// Says, and keeps for the page, that other programs were at work while something was timed.
void warn_of_load(const LoadMeter& load, const Console& console, std::vector<std::string>& warnings);

}  // namespace fovea::cli

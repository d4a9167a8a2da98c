#pragma once

#include "dist/launch.h"

namespace fovea::cli {

// All of the program, on the ranks it was started as; gives the exit code of this one.
int start(int argc, char** argv, dist::Ranks& ranks);

}  // namespace fovea::cli

#pragma once

#include <string>

#include "io/file.h"

namespace fovea {

// What to try where a path leads nowhere: the name beside it that is nearest, or where the path still was right.
std::string missing_hint(const Path& path);

}  // namespace fovea

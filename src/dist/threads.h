#pragma once

#include <functional>

#include "dist/group.h"

namespace fovea::dist {

// Ranks that are threads of this process: for tests. Runs `work` on each and throws what the first of those threw that
// did not fail only because another one had.
void run_threads(int ranks, const std::function<void(const Group& all)>& work, double limit = 60.0);

}  // namespace fovea::dist

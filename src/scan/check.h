#pragma once

#include "scan/contract.h"

namespace fovea::scan {

// Refuses what no device can run.
void check(const Problem& problem, const Forward& io);
void check(const Problem& problem, const Backward& io);

}  // namespace fovea::scan

#pragma once

#include "fovea/ops.h"

namespace fovea {

// Refuses what is not x (..., in), weight (in, out) and, where there is one, bias (out).
void check_linear(const Var& x, const Var& weight, const Var& bias);

}  // namespace fovea

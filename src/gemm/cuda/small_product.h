#pragma once

#include "gemm/gemm_kernels.h"

namespace fovea::gemm {

// A product so small that what counts is the number of launches. False, and nothing done: it is larger.
bool multiply_small(const Context& context, const kernels::Product& io);

}  // namespace fovea::gemm

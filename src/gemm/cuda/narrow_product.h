#pragma once

#include "gemm/gemm_kernels.h"

namespace fovea::gemm {

// The product of many dense rows and a small matrix, both sides multiples of 64 up to 256. False, and nothing done: not
// for these operands.
bool multiply_narrow(const Context& context, const kernels::Product& io);

}  // namespace fovea::gemm

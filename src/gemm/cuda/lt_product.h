#pragma once

#include "gemm/gemm_kernels.h"

namespace fovea::gemm {

// c = a b by cuBLASLt: equal ranks and leading axes, a dense row or column each, one dtype of a and b, nothing empty.
void multiply_lt(const Context& context, const kernels::Product& io);

}  // namespace fovea::gemm

#pragma once

#include "gemm/gemm.h"

namespace fovea::gemm {

// The products behind multiply(): shapes agree, nothing is empty, a and b have one dtype, equal rank (or 2 for a shared
// b under a two-dimensional a), and a dense row or column each.
void multiply_onednn(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Epilogue& epilogue);
void multiply_blocked(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c,
                      const Epilogue& epilogue);

// Stored by columns: the transpose of a dense matrix.
inline bool is_transposed(const Tensor& t) { return t.stride(-1) != 1 || t.stride(-2) < t.dim(-1); }

}  // namespace fovea::gemm

#pragma once

#include "fovea/tensor.h"

// The columns of v (rows, out) with lengths s (out). Dense; s and the sums in the wide type.
namespace fovea::kernels {

// w = s v / |v|, and norms = |v| (out). A column of zeros stays so.
struct WeightNorm {
  Tensor v, s, norms, w;
};
template <Device>
void weight_norm(const Context& context, const WeightNorm& io);

// With u = v / |v|: ds = dw.u and dv = s / |v| (dw - u (dw.u)).
struct WeightNormVjp {
  Tensor g, v, s, norms;
  Tensor ds, dv;  // dv undefined: not wanted
};
template <Device>
void weight_norm_backward(const Context& context, const WeightNormVjp& io);

}  // namespace fovea::kernels

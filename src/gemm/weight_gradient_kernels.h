#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// dw (in, out) = x^T dz, or added to what is there, and db (out) = the sums of the rows of dz: in the wide type, of x
// (rows, in) and dz (rows, out), all dense.
struct WeightGradient {
  Tensor x, dz, dw;
  bool adds;
  Tensor db;  // undefined: not wanted
};
// Gives dw; undefined: this device does nothing for these sizes.
template <Device>
Tensor weight_gradient(const Context& context, const WeightGradient& io);

}  // namespace fovea::kernels

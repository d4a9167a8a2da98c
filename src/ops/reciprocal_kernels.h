#pragma once

#include "fovea/tensor.h"

// Tensors are dense, of one dtype.
namespace fovea::kernels {

// y = 1 / x.
struct Reciprocal {
  Tensor x, y;
};
template <Device>
void reciprocal(const Context& context, const Reciprocal& io);

// dx = -g y^2.
struct ReciprocalVjp {
  Tensor g, y, dx;
};
template <Device>
void reciprocal_backward(const Context& context, const ReciprocalVjp& io);

}  // namespace fovea::kernels

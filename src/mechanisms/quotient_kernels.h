#pragma once

#include "fovea/tensor.h"

// Rows of sums divided by the last of them; dense.
namespace fovea::kernels {

// y (..., d) = x[..., :d] / D, D = x[..., d] + add; 0 where D is.
struct DivideByLast {
  Tensor x, y;
  double add;
};
template <Device>
void divide_by_last(const Context& context, const DivideByLast& io);

// dx (..., d + 1): [g / D, -(g . y) / D].
struct DivideByLastVjp {
  Tensor x, g, dx;
  double add;
};
template <Device>
void divide_by_last_backward(const Context& context, const DivideByLastVjp& io);

}  // namespace fovea::kernels

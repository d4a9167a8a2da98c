#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// y = factor times the sum of x, a scalar in the wide type.
struct Total {
  double factor;
  Tensor x, y;
};
template <Device>
void total(const Context& context, const Total& io);

// Every element of dx = factor g.
struct TotalVjp {
  double factor;
  Tensor g, dx;
};
template <Device>
void total_backward(const Context& context, const TotalVjp& io);

}  // namespace fovea::kernels

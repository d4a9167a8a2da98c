#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// y (..., r (r + 1) / 2): every product of two of x (..., r), once, those of different ones times sqrt(2). All dense,
// of the wide type.
struct Square {
  Tensor x, y;
};
template <Device>
void square_features(const Context& context, const Square& io);

struct SquareVjp {
  Tensor x, g, dx;
};
template <Device>
void square_features_backward(const Context& context, const SquareVjp& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/ops.h"

namespace fovea::kernels {

// Rotates by the positions, or back.
struct Rotate {
  Rotary rotary;
  bool back;
  Tensor x;          // (b, n, heads, d), last axis dense
  Tensor positions;  // i32 (b, n), dense
  Tensor y;          // as x, dense
};
template <Device>
void rotate(const Context& context, const Rotate& io);

}  // namespace fovea::kernels

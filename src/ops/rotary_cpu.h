#pragma once

#include "fovea/ops.h"

// The loops of rotary positions.
namespace fovea::cpu {

struct Rotate {
  bool halves;
  std::int64_t width;  // rotated channels, even
  Tensor x;            // (b, n, heads, d), last axis dense
  Tensor y;            // the same, dense
  Tensor angles;       // (positions, width): the cosines of a position, then its sines; wide type
  Tensor row;          // i32 (b, n): which row of `angles`
};
void rotate(const Context& context, const Rotate& io);

}  // namespace fovea::cpu

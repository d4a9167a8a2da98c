#pragma once

#include "ops/rotary_kernels.h"

namespace fovea::cpu {

// What positions turn by. Positions far apart get a row each.
struct Angles {
  Tensor table;  // (positions, width): the cosines of a position, then its sines; wide type
  Tensor row;    // i32 (b, n): which row of it
};
Angles make_angles(const Context& context, const kernels::Rotate& io, std::int64_t width);

struct RotateRows {
  bool halves;
  std::int64_t width;  // rotated channels, even
  Tensor x, y;
  Angles angles;
};

}  // namespace fovea::cpu

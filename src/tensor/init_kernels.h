#pragma once

#include "fovea/init.h"

namespace fovea::kernels {

// Weights of one of the random kinds of Init, f32 or f64 and dense: a function of the seed, the stream and the place.
struct DrawnWeights {
  Init init;
  std::uint64_t stream;
  Tensor to;
};
template <Device>
void draw(const Context& context, const DrawnWeights& io);

}  // namespace fovea::kernels

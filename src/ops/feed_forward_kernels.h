#pragma once

#include "fovea/ops.h"

namespace fovea::kernels {

// As ops/feed_forward.h has it; x and y (rows, width), weights and biases in the wide type. All dense.
struct FeedForward {
  Activation activation;
  bool gated;
  Tensor x, in, in_bias, out, out_bias;
};
// Undefined: there is none for these sizes.
template <Device>
Tensor feed_forward(const Context& context, const FeedForward& io);

}  // namespace fovea::kernels

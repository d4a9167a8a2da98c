#pragma once

#include "fovea/ops.h"

namespace fovea::kernels {

// sum = x + branch, and what the layer reads its norm; without a branch it reads x.
struct FeedForwardNorm {
  NormKind kind;
  double eps;
  Tensor branch, sum, gain, bias;  // gain and bias (width), wide, may be undefined
};
// As ops/feed_forward.h has it; x and y (rows, width), weights and biases in the wide type. All dense.
struct FeedForward {
  Activation activation;
  bool gated;
  FeedForwardNorm norm;
  Tensor x, in, in_bias, out, out_bias;
};
// Undefined: there is none for these sizes.
template <Device>
Tensor feed_forward(const Context& context, const FeedForward& io);

}  // namespace fovea::kernels

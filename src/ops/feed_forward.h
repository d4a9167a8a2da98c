#pragma once

#include "fovea/ops.h"

namespace fovea {

// act(x W1 + b1) W2 + b2, or with W1 = [Wg, Wv] and b1 = [bg, bv] (act(x Wg + bg) * (x Wv + bv)) W2 + b2.
struct FeedForwardWeights {
  Var in, in_bias, out, out_bias;  // (width, inner), (inner) or twice that; (inner, width), (width)
  Activation activation;
  bool gated;
};

// What it reads: x, or the norm of x + branch, of all that a norm of rows can be.
struct FeedForwardInput {
  Var x, branch;  // branch undefined: x as it is
  Norm norm;
};
struct FeedForwardResult {
  Var sum, y;  // x + branch; the layer's output
};

// All of it at once, of a tape that records nothing and for sizes for which the device has a kernel; else nothing.
FeedForwardResult fused_feed_forward(Tape& tape, const FeedForwardInput& input, const FeedForwardWeights& weights);

}  // namespace fovea

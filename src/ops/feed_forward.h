#pragma once

#include "fovea/ops.h"

namespace fovea {

// act(x W1 + b1) W2 + b2, or with W1 = [Wg, Wv] and b1 = [bg, bv] (act(x Wg + bg) * (x Wv + bv)) W2 + b2.
struct FeedForwardWeights {
  Var in, in_bias, out, out_bias;  // (width, inner), (inner) or twice that; (inner, width), (width)
  Activation activation;
  bool gated;
};

// All of it at once, of a tape that records nothing and for sizes for which the device has a kernel; else undefined.
Var fused_feed_forward(Tape& tape, const Var& x, const FeedForwardWeights& weights);

}  // namespace fovea

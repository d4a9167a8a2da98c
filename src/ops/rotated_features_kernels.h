#pragma once

#include "fovea/tensor.h"

// Loops of the small operations of ops/features.h.
namespace fovea::kernels {

// y (rows of the heads, 2d) from x (b, n, heads, d), last axis dense; back: dx from y.
struct RotatedFeatures {
  Tensor x, rotations;
  Tensor y;   // dense; dy in backward
  Tensor dx;  // last axis dense; defined in backward
};
template <Device>
void rotate_features(const Context& context, const RotatedFeatures& io);

// y = factor log(sigmoid(x)), dense; or dx = g factor (1 - sigmoid(x)) where g is defined.
struct LogSigmoid {
  double factor;
  Tensor x, g;
  Tensor out;
};
template <Device>
void log_sigmoid(const Context& context, const LogSigmoid& io);

}  // namespace fovea::kernels

#pragma once

#include "ops/features.h"

// Kernels of features. Tensors of rows are (b, n, heads, ...); "wide" ones are f32, f64 for f64.
namespace fovea::kernels {

struct FeatureForward {
  const FeatureOptions* options;  // but for its variables, which stand below
  Tensor x;                       // last axis dense
  Tensor directions;              // (groups, r, d), wide, dense
  Tensor gain;                    // (groups, d), wide; undefined: none
  Tensor weight;                  // (b, n, heads), wide, dense; undefined: none
  Tensor tops;                    // (b, n, heads), wide: the largest u of each row; defined for Stabilizer::sequence
  Tensor shifts;                  // (b, n, heads), wide, dense: Stabilizer::given
  Tensor peaks;                   // i32 (b, n, heads): which u of each row is the largest; defined for pull_shift
  Tensor y;                       // dense
};
template <Device>
void features(const Context& context, const FeatureForward& io);

struct FeatureRescue {
  const FeatureOptions* options;
  Tensor x, directions;                   // as above
  Tensor shifts, log_decay, state_scale;  // of a Rescue; log_decay: defined where rows are in order
  Tensor needed;                          // u8 scalar: is there need of one?
  bool always;                            // it is written even where there is not
};
template <Device>
void find_rescue(const Context& context, const FeatureRescue& io);

struct FeatureBackward {
  const FeatureOptions* options;
  Tensor x, directions, gain, weight, tops, peaks;
  Tensor y, dy;             // dense
  Tensor dx;                // last axis dense
  Tensor d_gain, d_weight;  // as gain and weight, zero; undefined: not wanted
};
template <Device>
void features_backward(const Context& context, const FeatureBackward& io);

}  // namespace fovea::kernels

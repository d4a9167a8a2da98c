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
  Tensor peaks;                   // i32 (b, n, heads): which u of each row is the largest; defined for pull_shift
  Tensor y;                       // dense
};
template <Device>
void features(const Context& context, const FeatureForward& io);

struct FadingRows {
  const FeatureOptions* options;
  Tensor x, directions;  // as above
  Tensor first;          // i64 (sequences): the first row that fades, or how many there are
};
template <Device>
void find_fading(const Context& context, const FadingRows& io);

struct LevelTensors {
  const FeatureOptions* options;
  Tensor x, directions;                   // as above
  Tensor state;                           // (sequences, heads, r, width), wide, dense; undefined: none
  FeatureLevels levels;                   // its rows, and where they are
  Tensor log_decay, state_in, state_out;  // of Leveled; log_decay: defined where rows are in order
};
template <Device>
void find_levels(const Context& context, const LevelTensors& io);

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

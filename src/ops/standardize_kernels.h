#pragma once

#include "ops/standardize.h"

// Dense: values f32 (b, n, channels), moments (b, channels) in f32 or f64.
namespace fovea::kernels {

struct MeasureSeries {
  double eps;
  Tensor values;
  ChannelMoments moments;
};
template <Device>
void channel_moments(const Context& context, const MeasureSeries& io);

struct Standardize {
  Tensor values;
  ChannelMoments moments;
  Tensor y;  // in the dtype of the moments
};
template <Device>
void standardize(const Context& context, const Standardize& io);

struct RepeatRows {
  Tensor x, y;  // (b, channels) -> (b, n, channels)
};
template <Device>
void repeat_rows(const Context& context, const RepeatRows& io);

}  // namespace fovea::kernels

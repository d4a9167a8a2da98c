#pragma once

#include "fovea/tensor.h"

// Series by their own scale. None of these has a gradient.
namespace fovea {

struct ChannelMoments {
  Tensor mean, deviation;  // (b, channels)
};
// Of values f32 (b, n, channels) over their rows, in `dtype`, f32 or f64; sums are f64. The variance is biased and has
// eps added.
ChannelMoments channel_moments(const Context& context, const Tensor& values, double eps, DType dtype);
// (values - mean) / deviation, in the dtype of the moments.
Tensor standardized(const Context& context, const Tensor& values, const ChannelMoments& moments);
// (b, channels) -> (b, n, channels), f32 or f64
Tensor repeated_rows(const Context& context, const Tensor& x, std::int64_t n);

}  // namespace fovea

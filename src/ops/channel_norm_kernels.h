#pragma once

#include <vector>

#include "fovea/tensor.h"
#include "ops/spans.h"

// Norms of dense (rows, width) over channels. Statistics are f64 (sets, width); gain and bias (width) are in the wide
// type.
namespace fovea::kernels {

// What is measured together.
struct ChannelSets {
  Stretches stretches;
  std::vector<std::int64_t> of_stretch;
  std::vector<double> rows;  // of each set
  std::int64_t group;        // channels
};

struct MeasureChannels {
  const ChannelSets* sets;
  Tensor x, mean, variance;
};
template <Device>
void measure_channels(const Context& context, const MeasureChannels& io);

// factor = 1 / sqrt(variance + eps), of any floating dtype.
struct ChannelFactors {
  double eps;
  Tensor variance, factor;
};
template <Device>
void channel_factors(const Context& context, const ChannelFactors& io);

// y = (x - mean) factor gain + bias; rows of no set are left alone.
struct NormChannels {
  const ChannelSets* sets;
  Tensor x, mean, factor, gain, bias, y;
};
template <Device>
void norm_channels(const Context& context, const NormChannels& io);

// dx = factor (gain g - mean(gain g) - xhat mean(gain g xhat)), without the means where the statistics do not depend
// on x.
struct NormChannelsVjp {
  const ChannelSets* sets;
  bool fixed;
  Tensor x, g, mean, factor, gain;
  Tensor dx, d_gain, d_bias;  // undefined: not wanted
};
template <Device>
void norm_channels_backward(const Context& context, const NormChannelsVjp& io);

// running += momentum (scale measured - running), (width). What is not finite moves nothing: its step is skipped or
// fails, and running values would never recover.
struct MoveTowards {
  double momentum, scale;
  Tensor running, measured;
};
template <Device>
void move_towards(const Context& context, const MoveTowards& io);

}  // namespace fovea::kernels

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "ops/standardize_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// Means of f(value, channel) over the rows (n, channels) of one item.
template <class F>
std::vector<double> mean_of_rows(const float* values, std::int64_t n, std::int64_t channels, const F& f) {
  std::vector<double> sums(static_cast<std::size_t>(channels), 0.0);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += f(double{*values++}, c);
  for (double& sum : sums) sum /= static_cast<double>(n);
  return sums;
}

}  // namespace

template <>
void kernels::channel_moments<Device::cpu>(const Context& context, const MeasureSeries& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t n = io.values.dim(1), channels = io.values.dim(2);
  visit_wide(io.moments.mean.dtype(), [&]<class R>() {
    parallel_for(context, io.values.dim(0), [&](std::int64_t item) {
      const float* rows = io.values.data<float>() + item * n * channels;
      const auto mean = mean_of_rows(rows, n, channels, [](double v, std::size_t) { return v; });
      const auto variance =
          mean_of_rows(rows, n, channels, [&](double v, std::size_t c) { return (v - mean[c]) * (v - mean[c]); });
      R *to = io.moments.mean.data<R>() + item * channels,
        *deviation = io.moments.deviation.data<R>() + item * channels;
      for (std::size_t c = 0; c < mean.size(); ++c) {
        to[c] = static_cast<R>(mean[c]);
        deviation[c] = static_cast<R>(std::sqrt(variance[c] + io.eps));
      }
    });
  });
}

template <>
void kernels::standardize<Device::cpu>(const Context& context, const Standardize& io) {
  const std::int64_t n = io.values.dim(1), channels = io.values.dim(2);
  visit_wide(io.y.dtype(), [&]<class R>() {
    for_rows(context, io.values.dim(0) * n, channels, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* x = io.values.data<float>() + row * channels;
        const R* mean = io.moments.mean.data<R>() + row / n * channels;
        const R* deviation = io.moments.deviation.data<R>() + row / n * channels;
        R* y = io.y.data<R>() + row * channels;
        for (std::int64_t c = 0; c < channels; ++c) y[c] = (R(x[c]) - mean[c]) / deviation[c];
      }
    });
  });
}

template <>
void kernels::repeat_rows<Device::cpu>(const Context& context, const RepeatRows& io) {
  const std::int64_t n = io.y.dim(1), channels = io.y.dim(2);
  visit_wide(io.y.dtype(), [&]<class R>() {
    for_rows(context, io.y.dim(0) * n, channels, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        std::copy_n(io.x.data<R>() + row / n * channels, channels, io.y.data<R>() + row * channels);
    });
  });
}

}  // namespace fovea

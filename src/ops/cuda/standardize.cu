#include "ops/standardize_kernels.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct Standard {
  __device__ R operator()(R value, R mean, R deviation) const { return (value - mean) / deviation; }
};

struct Same {
  template <class R>
  __device__ R operator()(R x) const {
    return x;
  }
};

// (b, channels) as (b, 1, channels).
Tensor for_rows(const Tensor& x) { return x.reshape({x.dim(0), 1, x.dim(1)}); }

}  // namespace

// A thread for each channel of an item: series are short.
template <>
void kernels::channel_moments<Device::cuda>(const Context& context, const MeasureSeries& io) {
  const std::int64_t n = io.values.dim(1), channels = io.values.dim(2);
  const float* const values = pointer<float>(io.values);
  const Elements<double> mean = elements<double>(io.moments.mean), deviation = elements<double>(io.moments.deviation);
  const double eps = io.eps;
  each(context, io.values.dim(0) * channels, [=] __device__(std::int64_t i) {
    const float* const from = values + i / channels * n * channels + i % channels;
    double sum = 0.0, squares = 0.0;
    for (std::int64_t row = 0; row < n; ++row) sum += static_cast<double>(from[row * channels]);
    const double middle = sum / static_cast<double>(n);
    for (std::int64_t row = 0; row < n; ++row) {
      const double off = static_cast<double>(from[row * channels]) - middle;
      squares += off * off;
    }
    mean.put(i, middle);
    deviation.put(i, sqrt(squares / static_cast<double>(n) + eps));
  });
}

template <>
void kernels::standardize<Device::cuda>(const Context& context, const Standardize& io) {
  visit_wide(io.y.dtype(), [&]<class R>() {
    map<R>(context, Standard<R>(), io.y, io.values, for_rows(io.moments.mean), for_rows(io.moments.deviation));
  });
}

template <>
void kernels::repeat_rows<Device::cuda>(const Context& context, const RepeatRows& io) {
  visit_wide(io.y.dtype(), [&]<class R>() { map<R>(context, Same(), io.y, for_rows(io.x)); });
}

}  // namespace fovea

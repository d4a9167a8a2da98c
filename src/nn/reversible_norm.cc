#include "nn/reversible_norm.h"

#include <cmath>

#include "core/parallel.h"
#include "fovea/zones.h"
#include "ops/work.h"

namespace fovea::nn {
namespace {

constexpr double kEps = 1e-5;

// saved: 1 / x
void reciprocal_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor g = node.grad().contiguous(context), y = node.saved[0];
  const Tensor dx = Tensor::empty(context, y.shape(), y.dtype());
  visit_wide(y.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < y.numel(); ++i) dx.data<T>()[i] = -g.data<T>()[i] * y.data<T>()[i] * y.data<T>()[i];
  });
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kReciprocal{"reciprocal", reciprocal_backward};

// Of a few parameters.
Var reciprocal(Tape& tape, const Var& x) {
  const Tensor y = Tensor::empty(tape.context(), x.shape(), x.dtype());
  visit_wide(y.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.data<T>()[i] = T(1) / x.value().data<T>()[i];
  });
  return tape.record(kReciprocal, {x}, y, {y});
}

// (b, channels) -> (b, n, channels)
Tensor repeated(const Context& context, const Tensor& x, std::int64_t n) {
  const Tensor out = Tensor::empty(context, {x.dim(0), n, x.dim(1)}, x.dtype());
  for (std::int64_t i = 0; i < n; ++i) out.select(1, i).copy_from(x);
  return out;
}

// Sums of f(value, channel) over the rows of one item.
template <class F>
std::vector<double> sum_rows(const float* values, std::int64_t n, std::int64_t channels, const F& f) {
  std::vector<double> sums(static_cast<std::size_t>(channels), 0.0);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += f(double{*values++}, c);
  for (double& sum : sums) sum /= static_cast<double>(n);
  return sums;
}

}  // namespace

ReversibleNorm::ReversibleNorm(const Scope& scope, std::int64_t channels)
    : gain_(scope.add("gain", {channels}, Init::ones())), bias_(scope.add("bias", {channels}, Init::zeros())) {}

ReversibleNorm::Statistics ReversibleNorm::measure(const Context& context, const Tensor& values) const {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t b = values.dim(0), n = values.dim(1), channels = values.dim(2);
  const Tensor from = values.contiguous(context);
  const Tensor means = Tensor::empty(context, {b, channels}, DType::f64);
  const Tensor deviations = Tensor::empty(context, {b, channels}, DType::f64);
  parallel_for(context, b, [&](std::int64_t item) {
    const float* rows = from.data<float>() + item * n * channels;
    const auto mean = sum_rows(rows, n, channels, [](double v, std::size_t) { return v; });
    const auto variance =
        sum_rows(rows, n, channels, [&](double v, std::size_t c) { return (v - mean[c]) * (v - mean[c]); });
    std::copy(mean.begin(), mean.end(), means.data<double>() + item * channels);
    for (std::size_t c = 0; c < variance.size(); ++c)
      deviations.data<double>()[item * channels + static_cast<std::int64_t>(c)] = std::sqrt(variance[c] + kEps);
  });
  return {means.to(context, gain_.dtype()), deviations.to(context, gain_.dtype())};
}

Var ReversibleNorm::normalize(Tape& tape, const Tensor& values, const Statistics& statistics) const {
  const Context& context = tape.context();
  const std::int64_t b = values.dim(0), n = values.dim(1), channels = values.dim(2);
  const Tensor from = values.contiguous(context), out = Tensor::empty(context, values.shape(), gain_.dtype());
  visit_wide(out.dtype(), [&]<class T>() {
    const ZoneTimer timer(context.zones(), Zone::elementwise);
    parallel_for(context, b, [&](std::int64_t item) {
      const float* x = from.data<float>() + item * n * channels;
      const T* mean = statistics.mean.data<T>() + item * channels;
      const T* deviation = statistics.deviation.data<T>() + item * channels;
      T* y = out.data<T>() + item * n * channels;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t c = 0; c < channels; ++c) *y++ = (T(*x++) - mean[c]) / deviation[c];
    });
  });
  return add(tape, mul(tape, out, gain_), bias_);
}

Var ReversibleNorm::restore(Tape& tape, const Var& normed, const Statistics& statistics) const {
  const Context& context = tape.context();
  const Var plain = mul(tape, sub(tape, normed, bias_), reciprocal(tape, gain_));
  const Var scaled = mul(tape, plain, repeated(context, statistics.deviation, normed.dim(1)));
  return add(tape, scaled, repeated(context, statistics.mean, normed.dim(1)));
}

}  // namespace fovea::nn

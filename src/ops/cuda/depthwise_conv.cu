#include "ops/depthwise_conv_kernels.h"

#include "core/wide.h"
#include "ops/cuda/packs.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// x (b, n, heads d), each row dense.
template <class R>
struct ConvRows {
  ConvRows(const Tensor& x, const Span* spans)
      : of(elements<R>(x)), n(x.dim(1)), item(x.stride(0)), row(x.stride(1)), spans(spans) {}

  // The first element of the row `ahead` rows after row i of (b n).
  __device__ std::int64_t at(std::int64_t i, std::int64_t ahead) const { return i / n * item + (i % n + ahead) * row; }

  Elements<R> of;
  std::int64_t n, item, row;
  const Span* spans;
};

bool rows_have_packs(const kernels::ConvTensors& io) {
  return has_packs(io.x, 2) && has_packs(io.taps, 1) && has_packs(io.y, 2);
}

template <class R>
void run(const Context& context, const kernels::ConvTensors& io) {
  const auto spans = upload(context, io.spans);
  const ConvRows<R> x(io.x, spans.data());
  const Elements<R> weights = elements<R>(io.taps), y = elements<R>(io.y);
  const std::int64_t taps = io.taps.dim(0), width = io.taps.dim(1), first = io.first;
  each_pack(context, {io.x.dim(0) * io.x.dim(1), width}, rows_have_packs(io),
            [=] __device__(auto neighbours, std::int64_t i, std::int64_t column) {
              constexpr int kCount = decltype(neighbours)::count;
              const Span span = x.spans[i];
              const std::int64_t row = i % x.n + first;  // of the first tap
              const std::int64_t low = row < span.begin ? span.begin - row : 0;
              const std::int64_t high = span.end - row < taps ? span.end - row : taps;
              R sum[kCount] = {}, weight[kCount], value[kCount];
              for (std::int64_t t = low; t < high; ++t) {
                load(weights, t * width + column, weight);
                load(x.of, x.at(i, first + t) + column, value);
                for (int k = 0; k < kCount; ++k) sum[k] += weight[k] * value[k];
              }
              store(y, i * width + column, sum);
            });
}

template <class R>
void vjp_taps(const Context& context, const kernels::ConvTensors& io, const Tensor& sums) {
  const auto spans = upload(context, io.spans);
  const ConvRows<R> x(io.x, spans.data());
  const Elements<R> y = elements<R>(io.y), to = elements<R>(sums);
  const std::int64_t width = io.taps.dim(1), first = io.first;
  column_sums(
      context, {io.x.dim(0) * io.x.dim(1), io.taps.numel()},
      [=] __device__(std::int64_t i, std::int64_t c) -> R {
        const Span span = x.spans[i];
        const std::int64_t ahead = first + c / width, met = i % x.n + ahead;
        if (met < span.begin || met >= span.end) return R(0);
        return y[i * width + c % width] * x.of[x.at(i, ahead) + c % width];
      },
      [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

template <class R>
void spread(const Context& context, const kernels::Taps& io) {
  const std::int64_t taps = io.to.dim(0), width = io.to.dim(1);
  const std::int64_t shared = width * taps / std::max<std::int64_t>(1, io.from.numel());
  const R* const from = pointer<R>(io.from);
  R* const to = pointer<R>(io.to);
  each(context, io.to.numel(), [=] __device__(std::int64_t i) { to[i] = from[i % width / shared * taps + i / width]; });
}

template <class R>
void gather(const Context& context, const kernels::Taps& io) {
  const std::int64_t taps = io.from.dim(0), width = io.from.dim(1);
  const std::int64_t shared = width * taps / std::max<std::int64_t>(1, io.to.numel());
  const R* const from = pointer<R>(io.from);
  R* const to = pointer<R>(io.to);
  rows(context, io.to.numel(), shared, [=] __device__(const auto& g) {
    const std::int64_t tap = g.row % taps, first = g.row / taps * shared;
    R sum = 0;
    for (std::int64_t c = g.lane; c < shared; c += g.lanes) sum += from[tap * width + first + c];
    sum = g.sum(sum);
    if (g.lane == 0) to[g.row] += sum;
  });
}

}  // namespace

template <>
void kernels::convolve<Device::cuda>(const Context& context, const ConvTensors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
Tensor kernels::tap_gradients<Device::cuda>(const Context& context, const ConvTensors& io, const RowList&) {
  const Tensor sums = Tensor::empty(context, io.taps.shape(), io.taps.dtype());
  visit_wide(io.x.dtype(), [&]<class R>() { vjp_taps<R>(context, io, sums); });
  return sums;
}

template <>
void kernels::spread_taps<Device::cuda>(const Context& context, const Taps& io) {
  visit_wide(io.to.dtype(), [&]<class R>() { spread<R>(context, io); });
}

template <>
void kernels::gather_taps<Device::cuda>(const Context& context, const Taps& io) {
  visit_wide(io.to.dtype(), [&]<class R>() { gather<R>(context, io); });
}

}  // namespace fovea

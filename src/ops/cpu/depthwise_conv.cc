#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/depthwise_conv.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/column_sum.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/depthwise_conv_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Rows of two factors that advance together.
template <class A, class B>
struct Factors {
  const A* a;
  const B* b;
  std::int64_t a_step, b_step, count;
};

// out = sum over the rows of a * b, in `width` columns: four vectors at a time stay in registers, so that a row costs
// its loads and nothing else. write(column, sums, count) takes what was summed.
template <class R, class A, class B, class Write>
HWY_INLINE void sum_of_products(const Factors<A, B>& rows, std::int64_t width, Write&& write) {
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN R sums[4 * hn::MaxLanes(d)];
  std::int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const A* a = rows.a + c;
    const B* b = rows.b + c;
    for (std::int64_t i = 0; i < rows.count; ++i, a += rows.a_step, b += rows.b_step) {
      s0 = hn::MulAdd(load_wide(d, a), load_wide(d, b), s0);
      s1 = hn::MulAdd(load_wide(d, a + lanes), load_wide(d, b + lanes), s1);
      s2 = hn::MulAdd(load_wide(d, a + 2 * lanes), load_wide(d, b + 2 * lanes), s2);
      s3 = hn::MulAdd(load_wide(d, a + 3 * lanes), load_wide(d, b + 3 * lanes), s3);
    }
    hn::Store(s0, d, sums);
    hn::Store(s1, d, sums + lanes);
    hn::Store(s2, d, sums + 2 * lanes);
    hn::Store(s3, d, sums + 3 * lanes);
    write(c, sums, 4 * lanes);
  }
  for (; c < width; ++c) {
    R sum = 0;
    for (std::int64_t i = 0; i < rows.count; ++i)
      sum += static_cast<R>(rows.a[i * rows.a_step + c]) * static_cast<R>(rows.b[i * rows.b_step + c]);
    write(c, &sum, 1);
  }
}

template <class T>
void convolve_typed(const kernels::ConvTensors& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t n = io.x.dim(1), width = io.taps.dim(1), taps = io.taps.dim(0), step = io.x.stride(1);
  for (std::int64_t i = begin; i < end; ++i) {
    const Span span = io.spans[static_cast<std::size_t>(i)];
    const std::int64_t row = i % n + io.first;  // of the first tap
    const std::int64_t low = std::max<std::int64_t>(0, span.begin - row), high = std::min(taps, span.end - row);
    T* y = io.y.data<T>() + i * width;
    if (low >= high) {
      std::fill_n(y, width, T(R(0)));
      continue;
    }
    const T* x = io.x.data<T>() + i / n * io.x.stride(0) + (row + low) * step;
    const Factors<R, T> factors{io.taps.data<R>() + low * width, x, width, step, high - low};
    sum_of_products<R>(factors, width, [y](std::int64_t column, const R* sums, std::int64_t count) {
      for (std::int64_t c = 0; c < count; ++c) y[column + c] = T(sums[c]);
    });
  }
}

// d_taps (taps, width) += what the rows [begin, end) of one sequence give.
template <class T>
void vjp_taps_typed(const kernels::ConvTensors& io, std::int64_t begin, std::int64_t end, void* d_taps) {
  using R = Wide<T>;
  const std::int64_t n = io.x.dim(1), width = io.taps.dim(1), item = begin / n;
  const Span span = io.spans[static_cast<std::size_t>(begin)];
  for (std::int64_t t = 0; t < io.taps.dim(0); ++t) {
    const std::int64_t shift = io.first + t;
    const std::int64_t low = std::max(begin, item * n + span.begin - shift);
    const std::int64_t high = std::min(end, item * n + span.end - shift);
    if (low >= high) continue;
    const T* x = io.x.data<T>() + item * io.x.stride(0) + (low - item * n + shift) * io.x.stride(1);
    const Factors<T, T> factors{io.y.data<T>() + low * width, x, width, io.x.stride(1), high - low};
    R* to = static_cast<R*>(d_taps) + t * width;
    sum_of_products<R>(factors, width, [to](std::int64_t column, const R* sums, std::int64_t count) {
      for (std::int64_t c = 0; c < count; ++c) to[column + c] += sums[c];
    });
  }
}

void convolve_rows(const kernels::ConvTensors& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { convolve_typed<T>(io, begin, end); });
}

void vjp_taps(const kernels::ConvTensors& io, std::int64_t begin, std::int64_t end, void* d_taps) {
  visit_float(io.x.dtype(), [&]<class T>() { vjp_taps_typed<T>(io, begin, end, d_taps); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(convolve_rows);
HWY_EXPORT(vjp_taps);

}  // namespace

template <>
void kernels::convolve<Device::cpu>(const Context& context, const ConvTensors& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(convolve_rows);
  for_rows(context, io.x.dim(0) * io.x.dim(1), io.taps.numel(),
           [&](std::int64_t begin, std::int64_t end) { run(io, begin, end); });
}

template <>
Tensor kernels::tap_gradients<Device::cpu>(const Context& context, const ConvTensors& io, const RowList& sequences) {
  const auto run = HWY_DYNAMIC_DISPATCH(vjp_taps);
  const Stretches stretches(sequences, io.x.dim(1));
  const RowBlocks blocks(static_cast<std::int64_t>(stretches.list.size()), io.taps.numel());
  const Tensor partial = Tensor::zeros(context, {blocks.count, io.taps.numel()}, io.taps.dtype(), Lifetime::scratch);
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& stretch = stretches.list[static_cast<std::size_t>(i)];
      run(io, stretch.begin, stretch.end, partial.select(0, block).raw());
    }
  });
  return cpu::fold_blocks(context, partial).reshape(io.taps.shape());
}

template <>
void kernels::spread_taps<Device::cpu>(const Context&, const Taps& io) {
  const std::int64_t taps = io.to.dim(0), width = io.to.dim(1),
                     shared = width * taps / std::max<std::int64_t>(1, io.from.numel());
  visit_wide(io.to.dtype(), [&]<class R>() {
    for (std::int64_t t = 0; t < taps; ++t)
      for (std::int64_t c = 0; c < width; ++c)
        io.to.data<R>()[t * width + c] = io.from.data<R>()[c / shared * taps + t];
  });
}

template <>
void kernels::gather_taps<Device::cpu>(const Context&, const Taps& io) {
  const std::int64_t taps = io.from.dim(0), width = io.from.dim(1),
                     shared = width * taps / std::max<std::int64_t>(1, io.to.numel());
  visit_wide(io.to.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < width; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        io.to.data<R>()[c / shared * taps + t] += io.from.data<R>()[t * width + c];
  });
}

}  // namespace fovea
#endif  // HWY_ONCE

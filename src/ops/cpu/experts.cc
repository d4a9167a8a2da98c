#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/experts.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/chunk-inl.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/experts_kernels.h"
#include "ops/work.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void scale_row(const T* HWY_RESTRICT x, R factor, T* HWY_RESTRICT y, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) y[i] = T(factor * static_cast<R>(x[i]));
}

template <class R>
R factor_of(const Tensor& scale, std::int64_t i) {
  return scale.defined() ? scale.data<R>()[i] : R(1);
}

void scatter_range(const kernels::Scatter& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = io.values.dim(1);
  visit_float(io.values.dtype(), [&]<class T>() {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t row = io.index.data<std::int32_t>()[i];
      if (row < 0) continue;
      T* to = io.y.data<T>() + row * width;
      scale_row(io.values.data<T>() + i * width, factor_of<Wide<T>>(io.scale, i), to, width);
    }
  });
}

void scatter_backward_range(const kernels::ScatterVjp& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = io.g.dim(1);
  visit_float(io.g.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t row = io.index.data<std::int32_t>()[i];
      if (row < 0) {
        if (io.d_scale.defined()) io.d_scale.data<R>()[i] = R(0);
        if (io.d_values.defined()) std::fill_n(io.d_values.data<T>() + i * width, width, T(0.0f));
        continue;
      }
      const T* g = io.g.data<T>() + row * width;
      if (io.d_scale.defined()) io.d_scale.data<R>()[i] = row_dot(g, io.values.data<T>() + i * width, width);
      if (io.d_values.defined()) scale_row(g, factor_of<R>(io.scale, i), io.d_values.data<T>() + i * width, width);
    }
  });
}

// Chunks begin at multiples of four elements.
void jitter_range(const kernels::Jitter& noise, const Tensor& x, const Tensor& y,
                  const std::pair<std::int64_t, std::int64_t>& range) {
  constexpr std::int64_t kDraws = 4 * kPhiloxCounters;
  alignas(64) std::uint32_t words[kDraws];
  visit_float(x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const R amount = static_cast<R>(noise.amount);
    ChunkIn<T> in;
    ChunkOut<T> out;
    for_chunks(range.first, range.second, [&](std::int64_t i, std::int64_t count) {
      const R* HWY_RESTRICT from = in.read(x.data<T>() + i, count);
      R* HWY_RESTRICT to = out.place(y.data<T>() + i);
      for (std::int64_t done = 0; done < count; done += kDraws) {
        philox_words({noise.seed, static_cast<std::uint64_t>(i + done) / 4, noise.stream}, words);
        const std::int64_t take = std::min(kDraws, count - done);
        for (std::int64_t j = 0; j < take; ++j)
          to[done + j] = from[done + j] * (1 + amount * (2 * static_cast<R>(uniform01(words[j])) - 1));
      }
      out.write(y.data<T>() + i, count);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(scatter_range);
HWY_EXPORT(scatter_backward_range);
HWY_EXPORT(jitter_range);

}  // namespace

template <>
void kernels::scatter_rows<Device::cpu>(const Context& context, const Scatter& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(scatter_range);
  for_rows(context, io.values.dim(0), io.values.dim(1),
           [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

template <>
void kernels::scatter_rows_backward<Device::cpu>(const Context& context, const ScatterVjp& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(scatter_backward_range);
  for_rows(context, io.values.dim(0), io.values.dim(1),
           [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

template <>
void kernels::jitter<Device::cpu>(const Context& context, const JitterTensors& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(jitter_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) {
    range(io.noise, io.x, io.y, {begin, end});
  });
}

}  // namespace fovea
#endif  // HWY_ONCE

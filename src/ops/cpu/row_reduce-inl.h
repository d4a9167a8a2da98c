// Reductions along one row, for the operations over the last axis.
//
// Include inside a file that foreach_target.h compiles again for every target.

#if defined(FOVEA_OPS_ROW_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_OPS_ROW_REDUCE_INL_H_
#undef FOVEA_OPS_ROW_REDUCE_INL_H_
#else
#define FOVEA_OPS_ROW_REDUCE_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "fovea/dtype.h"
#include "hwy/highway.h"
#include "ops/cpu/chunk-inl.h"
#include "policy/math.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A vector of R from elements of type T.
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const bf16* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), reinterpret_cast<const hwy::bfloat16_t*>(from)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const f16* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(from)));
}

// Sums over a row are explicit vectors: an `omp simd` reduction adds up its lanes one by one at the end, which takes 64
// cycles, as long as everything else about a row of 64 elements.
template <class T>
Wide<T> row_sum(const T* HWY_RESTRICT x, std::int64_t width) {
  using R = Wide<T>;
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) sums = hn::Add(sums, load_wide(d, x + i));
  R sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < width; ++i) sum += static_cast<R>(x[i]);
  return sum;
}

// sum of (x - shift)^2.
template <class T>
Wide<T> row_squares(const T* HWY_RESTRICT x, Wide<T> shift, std::int64_t width) {
  using R = Wide<T>;
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shifts = hn::Set(d, shift);
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    const auto centred = hn::Sub(load_wide(d, x + i), shifts);
    sums = hn::MulAdd(centred, centred, sums);
  }
  R sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < width; ++i) sum += (static_cast<R>(x[i]) - shift) * (static_cast<R>(x[i]) - shift);
  return sum;
}

template <class T, class U>
Wide<T> row_dot(const T* HWY_RESTRICT x, const U* HWY_RESTRICT y, std::int64_t width, Wide<T> shift = 0) {
  using R = Wide<T>;
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shifts = hn::Set(d, shift);
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes)
    sums = hn::MulAdd(hn::Sub(load_wide(d, x + i), shifts), load_wide(d, y + i), sums);
  R sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < width; ++i) sum += (static_cast<R>(x[i]) - shift) * static_cast<R>(y[i]);
  return sum;
}

// At least the lowest finite value, so that a row of -inf gives weights of 0 and not of NaN.
template <class T>
Wide<T> row_max(const T* HWY_RESTRICT x, std::int64_t width) {
  using R = Wide<T>;
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto tops = hn::Set(d, std::numeric_limits<R>::lowest());
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) tops = hn::Max(tops, load_wide(d, x + i));
  R top = hn::GetLane(hn::MaxOfLanes(d, tops));
  for (; i < width; ++i) top = static_cast<R>(x[i]) > top ? static_cast<R>(x[i]) : top;
  return top;
}

template <class R>
HWY_FLATTEN R exp_sum(const R* HWY_RESTRICT x, R top, std::int64_t width) {
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += math::exp(x[i] - top);
  return sum;
}

// sum of e^(x - top).
template <class T>
Wide<T> row_exp_sum(const T* x, Wide<T> top, std::int64_t width) {
  ChunkIn<T> in;
  Wide<T> sum = 0;
  for (std::int64_t i = 0; i < width; i += kChunk) {
    const std::int64_t count = std::min(kChunk, width - i);
    sum += exp_sum(in.read(x + i, count), top, count);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_ROW_REDUCE_INL_H_

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
#include "policy/math.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

template <class T>
Wide<T> row_sum(const T* HWY_RESTRICT x, std::int64_t width) {
  using R = Wide<T>;
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<R>(x[i]);
  return sum;
}

template <class T, class U>
Wide<T> row_dot(const T* HWY_RESTRICT x, const U* HWY_RESTRICT y, std::int64_t width) {
  using R = Wide<T>;
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<R>(x[i]) * static_cast<R>(y[i]);
  return sum;
}

// At least the lowest finite value, so that a row of -inf gives weights of 0 and not of NaN.
template <class T>
Wide<T> row_max(const T* HWY_RESTRICT x, std::int64_t width) {
  using R = Wide<T>;
  R top = std::numeric_limits<R>::lowest();
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < width; ++i) top = static_cast<R>(x[i]) > top ? static_cast<R>(x[i]) : top;
  return top;
}

// sum of e^(x - top).
template <class T>
Wide<T> row_exp_sum(const T* HWY_RESTRICT x, Wide<T> top, std::int64_t width) {
  using R = Wide<T>;
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += math::exp(static_cast<R>(x[i]) - top);
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_OPS_ROW_REDUCE_INL_H_

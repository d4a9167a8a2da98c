#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/additive.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/additive.h"
#include "ops/work.h"
#include "policy/math.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class R>
R score_key(const R* HWY_RESTRICT left, const R* HWY_RESTRICT vector, const R* HWY_RESTRICT right, std::int64_t width) {
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += vector[c] * math::tanh(left[c] + right[c]);
  return sum;
}

template <class R>
void vjp_key(const cpu::AdditiveRow& row, std::int64_t j, R ds, const cpu::AdditiveVjp& to) {
  const R *HWY_RESTRICT left = static_cast<const R*>(row.left),
                        *HWY_RESTRICT vector = static_cast<const R*>(row.vector),
                        *HWY_RESTRICT right = static_cast<const R*>(row.right) + j * row.stride;
  R *HWY_RESTRICT d_left = static_cast<R*>(to.d_left), *HWY_RESTRICT d_vector = static_cast<R*>(to.d_vector),
                  *HWY_RESTRICT d_right = static_cast<R*>(to.d_right) + j * row.stride;
#pragma omp simd
  for (std::int64_t c = 0; c < row.width; ++c) {
    const R u = math::tanh(left[c] + right[c]), g = ds * vector[c] * (R(1) - u * u);
    d_vector[c] += ds * u;
    d_left[c] += g;
    d_right[c] += g;
  }
}

void score_keys(const cpu::AdditiveRow& row, void* scores) {
  visit_wide(row.dtype, [&]<class R>() {
    const auto* right = static_cast<const R*>(row.right);
    for (std::int64_t j = 0; j < row.count; ++j)
      static_cast<R*>(scores)[j] = score_key(static_cast<const R*>(row.left), static_cast<const R*>(row.vector),
                                             right + j * row.stride, row.width);
  });
}

void vjp_keys(const cpu::AdditiveRow& row, const void* ds, const cpu::AdditiveVjp& to) {
  visit_wide(row.dtype, [&]<class R>() {
    for (std::int64_t j = 0; j < row.count; ++j)
      if (const R d = static_cast<const R*>(ds)[j]; d != R(0)) vjp_key<R>(row, j, d, to);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(score_keys);
HWY_EXPORT(vjp_keys);

}  // namespace

void cpu::additive_scores(const AdditiveRow& row, void* scores) { HWY_DYNAMIC_DISPATCH(score_keys)(row, scores); }

void cpu::additive_vjp(const AdditiveRow& row, const void* ds, const AdditiveVjp& to) {
  HWY_DYNAMIC_DISPATCH(vjp_keys)(row, ds, to);
}

}  // namespace fovea
#endif  // HWY_ONCE

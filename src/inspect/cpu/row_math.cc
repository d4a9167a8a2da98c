#include "inspect/row_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inspect/cpu/row_math.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "hwy/highway.h"
#include "policy/pointwise_weight.h"
#include "policy/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::inspection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kBlock = 512;  // numbers that are summed in f32

// Calls use(x, count) for parts of a row that are short enough for sums in f32.
template <class T, class Use>
HWY_INLINE void for_parts(T* x, std::int64_t n, const Use& use) {
  for (std::int64_t begin = 0; begin < n; begin += kBlock) use(x + begin, std::min(kBlock, n - begin));
}

// The sum of value(x_i).
template <class Value>
HWY_INLINE double sum_of(const float* x, std::int64_t n, const Value& value) {
  double total = 0.0;
  for_parts(x, n, [&](const float* HWY_RESTRICT y, std::int64_t count) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += value(y[i]);
    total += static_cast<double>(sum);
  });
  return total;
}

double sum_magnitudes(const float* x, std::int64_t n) {
  return sum_of(x, n, [](float y) { return math::absolute(y); });
}
double sum_signed(const float* x, std::int64_t n) {
  return sum_of(x, n, [](float y) { return y; });
}

float largest_magnitude(const float* HWY_RESTRICT x, std::int64_t n) {
  float most = 0.0f;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) {
    const float m = math::absolute(x[i]);
    most = most < m ? m : most;
  }
  return most;
}

// Shares e^(s - top) of a row and their sums; the weights are these, or of self_adjust scores times shares. A hidden
// score is -infinity, whose product with 0 must be 0.
template <bool kTimesScore>
RowSums exponentials(float* s, std::int64_t n, float top) {
  RowSums sums;
  for_parts(s, n, [&](float* HWY_RESTRICT x, std::int64_t count) {
    float sum = 0.0f, weighted = 0.0f;
#pragma omp simd reduction(+ : sum, weighted)
    for (std::int64_t i = 0; i < count; ++i) {
      const float below = x[i] - top, bounded = below < -200.0f ? -200.0f : below;
      const float share = math::exp2_low(bounded * math::kLog2e<float>);
      const float score = x[i] == -math::kInfinity<float> ? 0.0f : x[i];
      x[i] = kTimesScore ? score * share : share;
      sum += share;
      weighted += share * bounded;
    }
    sums.exponentials += static_cast<double>(sum);
    sums.weighted += static_cast<double>(weighted);
  });
  return sums;
}

template <class W>
RowSums pointwise(const W& policy, float* HWY_RESTRICT s, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) s[i] = policy.weigh(s[i]);
  return {};
}

// Of scores as they are: the engine hands the policy others.
struct ExponentialOfScore {
  float weigh(float score) const { return ExponentialWeight().weigh(score * ExponentialWeight::kUnit<float>); }
};

RowSums weigh_row(const RowWeighing& how, float* scores, std::int64_t n, float top) {
  switch (how.weight) {
    case tile::Weight::softmax: return exponentials<false>(scores, n, top);
    case tile::Weight::self_adjust: return exponentials<true>(scores, n, top);
    case tile::Weight::rela: return pointwise(Rela(), scores, n);
    case tile::Weight::relu2: return pointwise(Relu2(), scores, n);
    case tile::Weight::sigmoid: return pointwise(SigmoidWeight{how.offset}, scores, n);
    case tile::Weight::exp: return pointwise(ExponentialOfScore(), scores, n);
    case tile::Weight::power: return pointwise(PolynomialWeight::power(how.degree), scores, n);
    case tile::Weight::taylor: return pointwise(PolynomialWeight::taylor(how.degree), scores, n);
  }
  return {};
}

// One chunk of kMaximumOf numbers or fewer: to[i] += |x_i|, as f64.
HWY_INLINE void add_to(double* HWY_RESTRICT to, const float* HWY_RESTRICT x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::PromoteTo(d, hn::LoadU(narrow, x + i))), d, to + i);
  for (; i < n; ++i) to[i] += static_cast<double>(x[i]);
}

double add_row(float* row, std::int64_t n, float factor, const RowTarget& to) {
  double sum = 0.0;
  alignas(64) float magnitude[kMaximumOf];
  for (std::int64_t begin = 0; begin < n; begin += kMaximumOf) {
    const std::int64_t count = std::min(kMaximumOf, n - begin);
    float* HWY_RESTRICT x = row + begin;
    float* HWY_RESTRICT m = magnitude;
    float part = 0.0f, most = 0.0f;
    for (std::int64_t i = 0; i < count; ++i) {
      x[i] *= factor;
      m[i] = math::absolute(x[i]);
    }
#pragma omp simd reduction(max : most)
    for (std::int64_t i = 0; i < count; ++i) most = most < m[i] ? m[i] : most;
    if (to.logarithms) {  // of the smallest normal number for 0, which is then multiplied by 0
#pragma omp simd reduction(+ : part)
      for (std::int64_t i = 0; i < count; ++i) part += m[i] * math::log(m[i] < 1e-37f ? 1e-37f : m[i]);
    }
    sum += static_cast<double>(part);
    to.maxima[begin / kMaximumOf] = most;
    if (to.received != nullptr) add_to(to.received + begin, m, count);
    if (to.distance != nullptr) add_to(to.distance + begin, m, count);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::inspection
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::inspection {
HWY_EXPORT(weigh_row);
HWY_EXPORT(sum_magnitudes);
HWY_EXPORT(sum_signed);
HWY_EXPORT(largest_magnitude);
HWY_EXPORT(add_row);

RowSums weigh_row(const RowWeighing& how, float* scores, std::int64_t n, float top) {
  return HWY_DYNAMIC_DISPATCH(weigh_row)(how, scores, n, top);
}
double sum_magnitudes(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_magnitudes)(x, n); }
double sum_signed(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_signed)(x, n); }
float largest_magnitude(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(largest_magnitude)(x, n); }
double add_row(float* x, std::int64_t n, float factor, const RowTarget& to) {
  return HWY_DYNAMIC_DISPATCH(add_row)(x, n, factor, to);
}

}  // namespace fovea::inspection
#endif  // HWY_ONCE

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/update_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>

#include "hwy/highway.h"
#include "optim/update_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// One pass: reads value, gradient and both moments once, writes three of them once. 28 bytes a parameter in f32.
template <class T>
void update(const cpu::AdamWStep& step, const cpu::AdamWPiece<T>& piece) {
  const auto beta1 = static_cast<T>(step.beta1), beta2 = static_cast<T>(step.beta2);
  const auto rest1 = static_cast<T>(1.0 - step.beta1), rest2 = static_cast<T>(1.0 - step.beta2);
  const auto eps = static_cast<T>(step.eps), shrink = static_cast<T>(step.shrink), pull = static_cast<T>(step.pull);
  const auto step_size = static_cast<T>(step.step_size), root_size = static_cast<T>(step.root_size);
  T* HWY_RESTRICT value = piece.value;
  T *HWY_RESTRICT first = piece.first, *HWY_RESTRICT second = piece.second;
  const T* HWY_RESTRICT grad = piece.grad;
  for (std::int64_t i = 0; i < piece.count; ++i) {
    const T g = grad[i] + pull * value[i];
    const T m = beta1 * first[i] + rest1 * g;
    const T v = beta2 * second[i] + rest2 * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = shrink * value[i] - step_size * m / (std::sqrt(v) * root_size + eps);
  }
}

template <class T>
void average(const cpu::AveragePiece<T>& piece, double share) {
  T* HWY_RESTRICT to = piece.average;
  const T* HWY_RESTRICT from = piece.value;
  const auto part = static_cast<T>(share);
  for (std::int64_t i = 0; i < piece.count; ++i) to[i] += part * (from[i] - to[i]);
}

// x - x is 0 for a finite x, and NaN for the others.
template <class T>
bool scale_finite(T* HWY_RESTRICT x, double factor, std::int64_t count) {
  const auto by = static_cast<T>(factor);
  T rest = 0;
#pragma omp simd reduction(+ : rest)
  for (std::int64_t i = 0; i < count; ++i) {
    const T old = x[i];  // not the product: that could become a fused x * by - x, which is not 0 for subnormals
    rest += old - old;   // NOLINT(misc-redundant-expression): not for infinities and NaN
    x[i] = old * by;
  }
  return rest == 0;
}

template <class T>
double squares(const T* x, std::int64_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void update_f32(const cpu::AdamWStep& step, const cpu::AdamWPiece<float>& piece) { update(step, piece); }
void update_f64(const cpu::AdamWStep& step, const cpu::AdamWPiece<double>& piece) { update(step, piece); }
void average_f32(const cpu::AveragePiece<float>& piece, double share) { average(piece, share); }
void average_f64(const cpu::AveragePiece<double>& piece, double share) { average(piece, share); }
bool scale_f32(float* x, double factor, std::int64_t count) { return scale_finite(x, factor, count); }
bool scale_f64(double* x, double factor, std::int64_t count) { return scale_finite(x, factor, count); }
double squares_f32(const float* x, std::int64_t count) { return squares(x, count); }
double squares_f64(const double* x, std::int64_t count) { return squares(x, count); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
HWY_EXPORT(update_f32);
HWY_EXPORT(update_f64);
HWY_EXPORT(average_f32);
HWY_EXPORT(average_f64);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_f64);
HWY_EXPORT(squares_f32);
HWY_EXPORT(squares_f64);

namespace cpu {

void adamw_update(const AdamWStep& step, const AdamWPiece<float>& piece) {
  HWY_DYNAMIC_DISPATCH(update_f32)(step, piece);
}
void adamw_update(const AdamWStep& step, const AdamWPiece<double>& piece) {
  HWY_DYNAMIC_DISPATCH(update_f64)(step, piece);
}
void average_update(const AveragePiece<float>& piece, double share) { HWY_DYNAMIC_DISPATCH(average_f32)(piece, share); }
void average_update(const AveragePiece<double>& piece, double share) {
  HWY_DYNAMIC_DISPATCH(average_f64)(piece, share);
}
bool scale_and_check(float* x, double factor, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(scale_f32)(x, factor, count);
}
bool scale_and_check(double* x, double factor, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(scale_f64)(x, factor, count);
}
double sum_of_squares(const float* x, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(squares_f32)(x, count); }
double sum_of_squares(const double* x, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(squares_f64)(x, count); }

}  // namespace cpu
}  // namespace fovea
#endif  // HWY_ONCE

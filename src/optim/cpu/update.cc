#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cpu/update.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <atomic>
#include <cmath>

#include "hwy/highway.h"
#include "ops/work.h"
#include "optim/cpu/ranges.h"
#include "optim/update_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

using cpu::ElementRange;

// One pass: reads value, gradient and both moments once, writes three of them once. 28 bytes a parameter in f32.
template <class T>
void update(const cpu::AdamWNumbers& of, const kernels::AdamWTensors& io, const ElementRange& range) {
  const auto beta1 = static_cast<T>(of.constants.beta1), beta2 = static_cast<T>(of.constants.beta2);
  const auto rest1 = static_cast<T>(1.0 - of.constants.beta1), rest2 = static_cast<T>(1.0 - of.constants.beta2);
  const auto eps = static_cast<T>(of.constants.eps), shrink = static_cast<T>(of.shrink), l2 = static_cast<T>(io.l2);
  const auto step_size = static_cast<T>(of.pace.step_size), root_size = static_cast<T>(of.pace.root_size);
  T* HWY_RESTRICT value = io.value.data<T>() + range.begin;
  T* HWY_RESTRICT first = io.first.data<T>() + range.begin;
  T* HWY_RESTRICT second = io.second.data<T>() + range.begin;
  const T* HWY_RESTRICT grad = io.grad.data<T>() + range.begin;
  for (std::int64_t i = 0; i < range.count(); ++i) {
    const T g = grad[i] + l2 * value[i];
    const T m = beta1 * first[i] + rest1 * g;
    const T v = beta2 * second[i] + rest2 * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = shrink * value[i] - step_size * m / (std::sqrt(v) * root_size + eps);
  }
}

template <class T>
void average(const Tensor& average, const Tensor& value, const ElementRange& range, double share) {
  T* HWY_RESTRICT to = average.data<T>() + range.begin;
  const T* HWY_RESTRICT from = value.data<T>() + range.begin;
  const auto part = static_cast<T>(share);
  if (share == 1.0)
    std::copy_n(from, range.count(), to);
  else
    for (std::int64_t i = 0; i < range.count(); ++i) to[i] += part * (from[i] - to[i]);
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

void update_range(const cpu::AdamWNumbers& of, const kernels::AdamWTensors& io, const ElementRange& range) {
  visit_wide(io.value.dtype(), [&]<class T>() { update<T>(of, io, range); });
}

void average_range(const Tensor& to, const Tensor& value, const ElementRange& range, double share) {
  visit_wide(to.dtype(), [&]<class T>() { average<T>(to, value, range, share); });
}

bool unscale_range(const Tensor& grad, const ElementRange& range, double factor) {
  return visit_wide(grad.dtype(),
                    [&]<class T>() { return scale_finite(grad.data<T>() + range.begin, factor, range.count()); });
}

double squares_of_range(const Tensor& grad, const ElementRange& range) {
  return visit_wide(grad.dtype(), [&]<class T>() { return squares(grad.data<T>() + range.begin, range.count()); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(update_range);
HWY_EXPORT(average_range);
HWY_EXPORT(unscale_range);
HWY_EXPORT(squares_of_range);

bool goes(const Tensor& go) { return !go.defined() || *go.data<std::int64_t>() != 0; }

// body(index, range) on all ranges.
template <class Body>
void for_ranges(const Context& context, const std::vector<cpu::ElementRange>& ranges, const Body& body) {
  parallel_for(context, std::ssize(ranges), [&](std::int64_t index) {
    body(static_cast<std::size_t>(index), ranges[static_cast<std::size_t>(index)]);
  });
}

}  // namespace

template <>
void kernels::adamw<Device::cpu>(const Context& context, const AdamWUpdate& io) {
  if (!goes(io.go)) return;
  const auto update = HWY_DYNAMIC_DISPATCH(update_range);
  const auto ranges =
      cpu::cut_into_ranges(io.parameters, [](const AdamWTensors& p) -> const Tensor& { return p.value; });
  const double* numbers = io.pace.data<double>();
  const AdamWPace pace{numbers[0], numbers[1], numbers[2]};
  for_ranges(context, ranges, [&](std::size_t, const cpu::ElementRange& range) {
    const AdamWTensors& of = io.parameters[range.tensor];
    update({io.constants, pace, 1.0 - pace.rate * of.decay}, of, range);
  });
}

template <>
void kernels::move_averages<Device::cpu>(const Context& context, const AverageUpdate& io) {
  if (!goes(io.go)) return;
  const auto average = HWY_DYNAMIC_DISPATCH(average_range);
  const double share = *io.share.data<double>();
  for_ranges(context, cpu::cut_into_ranges(io.averages), [&](std::size_t, const cpu::ElementRange& range) {
    average(io.averages[range.tensor], io.values[range.tensor], range, share);
  });
}

// On one thread: parallel loops may be stopped half way, and this must not be.
template <>
void kernels::exchange<Device::cpu>(const Context&, const Exchange& io) {
  for (std::size_t i = 0; i < io.a.size(); ++i) {
    auto *a = static_cast<std::byte*>(io.a[i].raw()), *b = static_cast<std::byte*>(io.b[i].raw());
    std::swap_ranges(a, a + io.a[i].bytes(), b);
  }
}

template <>
void kernels::gradient_norm<Device::cpu>(const Context& context, const GradientNorm& io) {
  const auto squares = HWY_DYNAMIC_DISPATCH(squares_of_range);
  const std::vector<cpu::ElementRange> ranges = cpu::cut_into_ranges(io.grads);
  std::vector<double> sums(ranges.size());
  for_ranges(context, ranges, [&](std::size_t index, const cpu::ElementRange& range) {
    sums[index] = squares(io.grads[range.tensor], range);
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  *io.norm.data<double>() = std::sqrt(total);
}

template <>
void kernels::clip_norm<Device::cpu>(const Context& context, const NormClip& io) {
  const double norm = *io.norm.data<double>();
  if (!(norm > io.limit) || !std::isfinite(norm)) return;
  for_ranges(context, cpu::cut_into_ranges(io.grads), [&](std::size_t, const cpu::ElementRange& range) {
    visit_wide(io.grads[range.tensor].dtype(), [&]<class T>() {
      T* grad = io.grads[range.tensor].data<T>();
      const auto factor = static_cast<T>(io.limit / norm);
      for (std::int64_t i = range.begin; i < range.end; ++i) grad[i] *= factor;
    });
  });
}

template <>
void kernels::clip_value<Device::cpu>(const Context& context, const ValueClip& io) {
  if (!goes(io.go)) return;
  for_ranges(context, cpu::cut_into_ranges(io.grads), [&](std::size_t, const cpu::ElementRange& range) {
    visit_wide(io.grads[range.tensor].dtype(), [&]<class T>() {
      T* grad = io.grads[range.tensor].data<T>();
      const auto most = static_cast<T>(io.limit);
      for (std::int64_t i = range.begin; i < range.end; ++i) grad[i] = std::clamp(grad[i], -most, most);
    });
  });
}

template <>
void kernels::unscale<Device::cpu>(const Context& context, const Unscale& io) {
  const auto unscale = HWY_DYNAMIC_DISPATCH(unscale_range);
  std::atomic<bool> finite{true};
  const double factor = *io.factor.data<double>();
  for_ranges(context, cpu::cut_into_ranges(io.grads), [&](std::size_t, const cpu::ElementRange& range) {
    if (!unscale(io.grads[range.tensor], range, factor)) finite.store(false, std::memory_order_relaxed);
  });
  *io.finite.data<double>() = finite ? 1.0 : 0.0;
}

}  // namespace fovea
#endif  // HWY_ONCE

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/cpu/scalar.h"
#include "ops/loss_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Is the target's entry the first of those that are `top`, the largest?
template <class T>
bool leads(const T* x, std::int32_t target, Wide<T> top) {
  if (static_cast<Wide<T>>(x[target]) != top) return false;
  std::int32_t before = 0;  // counted to the end: a loop that may stop early is not vectorised
  for (std::int32_t i = 0; i < target; ++i) before += static_cast<Wide<T>>(x[i]) == top ? 1 : 0;
  return before == 0;
}

// As kernels::LossForward::peaks has it.
template <class R>
struct Peak {
  R top, log_sum;
};

// -sum_c q_c log p_c = log_sum + (1 - eps) (top - x_target) + eps (top - mean(x)), as q sums to 1.
template <class T>
double loss_row(const T* x, std::int64_t classes, std::int32_t target, double eps, const Peak<Wide<T>>& peak) {
  const auto top = static_cast<double>(peak.top), log_sum = static_cast<double>(peak.log_sum);
  const double below = top - static_cast<double>(static_cast<Wide<T>>(x[target]));
  if (eps == 0.0) return log_sum + below;
  const double mean = static_cast<double>(row_sum(x, classes)) / static_cast<double>(classes);
  return log_sum + (1.0 - eps) * below + eps * (top - mean);
}

template <class R>
struct RowVjp {
  Peak<R> peak;
  R smooth, scale;  // smooth: eps / classes
};

template <class T>
HWY_FLATTEN void vjp_row(const T* HWY_RESTRICT x, std::int64_t classes, const RowVjp<Wide<T>>& vjp,
                         T* HWY_RESTRICT dx) {
  using R = Wide<T>;
  const R top = vjp.peak.top, log_sum = vjp.peak.log_sum, smooth = vjp.smooth, scale = vjp.scale;
  for (std::int64_t i = 0; i < classes; ++i)
    dx[i] = T((math::exp(static_cast<R>(x[i]) - top - log_sum) - smooth) * scale);
}

template <class T>
void vjp_rows(const kernels::LossBackward& io, double factor, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t classes = io.logits.dim(1);
  const double eps = io.options.label_smoothing;
  const R smooth = static_cast<R>(eps / static_cast<double>(io.classes())), scale = static_cast<R>(factor);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int32_t target = io.targets.data<std::int32_t>()[row];
    const T* x = io.logits.data<T>() + row * classes;
    T* dx = io.dx.data<T>() + row * classes;
    if (target == io.options.ignore_index) {
      std::fill_n(dx, classes, T(0.0f));
      continue;
    }
    const R* saved = io.peaks.data<R>() + 2 * row;
    const Peak<R> peak{saved[0], saved[1]};
    vjp_row(x, classes, {peak, smooth, scale}, dx);
    if (target == kernels::kClassElsewhere) continue;
    const R share = math::exp(static_cast<R>(x[target]) - peak.top - peak.log_sum) - smooth - static_cast<R>(1.0 - eps);
    dx[target] = T(share * scale);
  }
}

template <class T>
Peak<Wide<T>> peak_of(const T* x, std::int64_t classes) {
  const Wide<T> top = row_max(x, classes);
  return {top, math::log(row_exp_sum(x, top, classes))};
}

template <class T>
void share_rows(const kernels::LossShare& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t classes = io.logits.dim(1);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int32_t target = io.targets.data<std::int32_t>()[row];
    if (target == io.ignore_index) continue;
    const T* x = io.logits.data<T>() + row * classes;
    const Peak<Wide<T>> peak = peak_of(x, classes);
    Wide<T>* peaks = io.peaks.data<Wide<T>>() + 2 * row;
    peaks[0] = peak.top, peaks[1] = peak.log_sum;
    double* given = io.given.data<double>() + 3 * row;
    const bool here = target != kernels::kClassElsewhere;
    given[0] = here ? static_cast<double>(static_cast<Wide<T>>(x[target])) : 0.0;
    given[1] = static_cast<double>(row_sum(x, classes));
    given[2] = here && leads(x, target, peak.top) ? 1.0 : 0.0;
  }
}

void loss_share_rows(const kernels::LossShare& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.logits.dtype(), [&]<class T>() { share_rows<T>(io, begin, end); });
}

// As kernels::LossForward::sums has it.
std::array<double, 3> loss_rows(const kernels::LossForward& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t classes = io.logits.dim(1);
  double loss = 0.0, counted = 0.0, correct = 0.0;
  visit_float(io.logits.dtype(), [&]<class T>() {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t target = io.targets.data<std::int32_t>()[row];
      if (target == io.options.ignore_index) continue;
      const T* x = io.logits.data<T>() + row * classes;
      const Peak<Wide<T>> peak = peak_of(x, classes);
      Wide<T>* saved = io.peaks.data<Wide<T>>() + 2 * row;
      saved[0] = peak.top, saved[1] = peak.log_sum;
      loss += loss_row(x, classes, target, io.options.label_smoothing, peak);
      counted += 1.0;
      correct += leads(x, target, peak.top) ? 1.0 : 0.0;
    }
  });
  return {loss, counted, correct};
}

void loss_backward_rows(const kernels::LossBackward& io, double factor, std::int64_t begin, std::int64_t end) {
  visit_float(io.logits.dtype(), [&]<class T>() { vjp_rows<T>(io, factor, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(loss_rows);
HWY_EXPORT(loss_share_rows);
HWY_EXPORT(loss_backward_rows);

}  // namespace

template <>
void kernels::check_targets<Device::cpu>(const Context&, const TargetCheck& io) {
  const std::int32_t *begin = io.targets.data<std::int32_t>(), *end = begin + io.targets.numel();
  const auto* bad = std::find_if(begin, end, [&](std::int32_t target) {
    return target != io.ignore_index && (target < 0 || target >= io.classes);
  });
  *io.place.data<std::int64_t>() = bad == end ? -1 : bad - begin;
}

template <>
void kernels::cross_entropy<Device::cpu>(const Context& context, const LossForward& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(loss_rows);
  const RowBlocks blocks(io.logits.dim(0), io.logits.dim(1));
  std::vector<std::array<double, 3>> partial(static_cast<std::size_t>(blocks.count));
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(block)] = rows(io, begin, end);
  });
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0.0;
    for (const auto& part : partial) sum += part[i];
    io.sums.data<double>()[i] += sum;
  }
}

template <>
void kernels::share_of_loss<Device::cpu>(const Context& context, const LossShare& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(loss_share_rows);
  for_rows(context, io.logits.dim(0), io.logits.dim(1),
           [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

template <>
void kernels::mean_loss<Device::cpu>(const Context&, const MeanLoss& io) {
  const double* sums = io.sums.data<double>();
  io.loss.fill(sums[1] == 0.0 ? 0.0 : sums[0] / sums[1]);
}

template <>
void kernels::loss_rate<Device::cpu>(const Context&, const LossRate& io) {
  const double counted = io.sums.data<double>()[1];
  *io.rate.data<double>() = counted == 0.0 ? 0.0 : cpu::scalar(io.g) / counted;
}

template <>
void kernels::cross_entropy_backward<Device::cpu>(const Context& context, const LossBackward& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(loss_backward_rows);
  const double factor = io.rate.defined() ? cpu::scalar(io.rate) : 1.0;
  for_rows(context, io.logits.dim(0), io.logits.dim(1),
           [&](std::int64_t begin, std::int64_t end) { rows(io, factor, begin, end); });
}

template <>
void kernels::absolute_errors<Device::cpu>(const Context&, const AbsoluteErrors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    const R *x = io.x.data<R>(), *y = io.y.data<R>();
    double sum = 0.0;
    for (std::int64_t i = 0; i < io.x.numel(); ++i) sum += std::abs(double{x[i]} - double{y[i]});
    *io.sum.data<double>() = sum;
  });
}

}  // namespace fovea
#endif  // HWY_ONCE

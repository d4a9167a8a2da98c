#include "ops/loss_kernels.h"

#include <limits>

#include "core/wide.h"
#include "ops/cuda/find_first.cuh"
#include "policy/math.h"
#include "tensor/cuda/held_rows.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// As kernels::LossForward::sums has it.
using LossSums = Values<double, 3>;

// The largest logit that a lane has met, where it met it first, and the sum of e^(x - top).
template <class R>
struct Summit {
  static constexpr std::int64_t kNowhere = INT64_MAX;
  R top = std::numeric_limits<R>::lowest(), sum = R(0);
  std::int64_t at = kNowhere;

  __device__ void add(std::int64_t column, int count, const R (&x)[kPack]) {
    R peak = top;
#pragma unroll
    for (int e = 0; e < kPack; ++e)
      if (e < count && (x[e] > peak || x[e] != x[e] || (x[e] == peak && at == kNowhere))) {
        peak = x[e];
        at = column + e;
      }
    sum *= math::exp(top - peak);
    top = peak;
#pragma unroll
    for (int e = 0; e < kPack; ++e)
      if (e < count) sum += math::exp(x[e] - top);
  }
  template <class Group>
  __device__ void join(const Group& group) {
    const R mine = top;
    top = group.max(mine);
    sum = group.sum(sum * math::exp(mine - top));
    at = -group.max(mine == top ? -at : -kNowhere);
  }
};

// The logits of a row, and their sum.
template <class R>
struct RowLook {
  Summit<R> summit;
  R all;
};
template <class R, class Group, DType kType>
__device__ RowLook<R> look_at(const Group& group, const PackedRow<kType>& shape, const Elements<R>& logits) {
  RowLook<R> look{{}, R(0)};
  for (std::int64_t c = group.lane * kPack; c < shape.width; c += Group::lanes * kPack) {
    R x[kPack];
    shape.load(logits, group.row * shape.width, c, x);
    look.summit.add(c, shape.left(c), x);
#pragma unroll
    for (const R value : x) look.all += value;  // 0 behind the end
  }
  look.summit.join(group);
  look.all = group.sum(look.all);
  return look;
}

// One look at the logits, whatever their number.
template <class R, DType kType>
struct LossRows {
  double smoothing;
  std::int32_t ignore;
  PackedRow<kType> shape;
  Elements<R> logits;
  const std::int32_t* targets;
  R* peaks;
  LossSums* of_row;

  template <class Group>
  __device__ void operator()(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const std::int32_t target = targets[group.row];
    if (target == ignore) {
      if (group.lane == 0) of_row[group.row] = {};
      return;
    }
    const RowLook<R> look = look_at<R>(group, shape, logits);
    if (group.lane != 0) return;
    const Summit<R>& summit = look.summit;
    const R log_sum = math::log(summit.sum);
    peaks[2 * group.row] = summit.top;
    peaks[2 * group.row + 1] = log_sum;
    const auto top = static_cast<double>(summit.top);
    const double below = top - static_cast<double>(logits[begin + target]);
    const double mean = static_cast<double>(look.all) / static_cast<double>(shape.width);
    const double loss = smoothing == 0.0
                            ? static_cast<double>(log_sum) + below
                            : static_cast<double>(log_sum) + (1.0 - smoothing) * below + smoothing * (top - mean);
    of_row[group.row] = LossSums{{loss, 1.0, summit.at == target ? 1.0 : 0.0}};
  }
};

template <class R, DType kType>
void forward(const Context& context, const kernels::LossForward& io) {
  const std::int64_t count = io.logits.dim(0), classes = io.logits.dim(1);
  const Tensor scratch = Tensor::empty(context, {count, 3}, DType::f64, Lifetime::scratch);
  auto* const of_row = static_cast<LossSums*>(scratch.raw());
  rows(context, count, classes,
       LossRows<R, kType>{io.options.label_smoothing,
                          io.options.ignore_index,
                          {classes, {&io.logits}},
                          elements<R>(io.logits),
                          pointer<std::int32_t>(io.targets),
                          pointer<R>(io.peaks),
                          of_row});
  double* const sums = pointer<double>(io.sums);
  total(
      context, count, [=] __device__(std::int64_t row) -> LossSums { return of_row[row]; },
      [=] __device__(const LossSums& found) {
        for (int i = 0; i < 3; ++i) sums[i] += found[i];
      });
}

template <class R, DType kType>
struct ShareRows {
  std::int32_t ignore;
  PackedRow<kType> shape;
  Elements<R> logits;
  const std::int32_t* targets;
  R* peaks;
  double* given;

  template <class Group>
  __device__ void operator()(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const std::int32_t target = targets[group.row];
    if (target == ignore) return;
    const RowLook<R> look = look_at<R>(group, shape, logits);
    if (group.lane != 0) return;
    const Summit<R>& summit = look.summit;
    peaks[2 * group.row] = summit.top;
    peaks[2 * group.row + 1] = math::log(summit.sum);
    const bool here = target != kernels::kClassElsewhere;
    given[3 * group.row] = here ? static_cast<double>(logits[begin + target]) : 0.0;
    given[3 * group.row + 1] = static_cast<double>(look.all);
    given[3 * group.row + 2] = here && summit.at == target ? 1.0 : 0.0;
  }
};

template <class R, DType kType>
struct LossVjpRows {
  double smooth_each;  // of every class
  double smoothing;
  std::int32_t ignore;
  PackedRow<kType> shape;
  Elements<R> logits, dx;
  const std::int32_t* targets;
  const R* peaks;
  const double* rate;  // null: 1

  template <class Group>
  __device__ void operator()(const Group& group) const {
    const std::int64_t begin = group.row * shape.width;
    const std::int32_t target = targets[group.row];
    const bool counts = target != ignore;
    const R top = counts ? peaks[2 * group.row] : R(0), log_sum = counts ? peaks[2 * group.row + 1] : R(0);
    const R smooth = static_cast<R>(smooth_each), certain = static_cast<R>(1.0 - smoothing),
            scale = rate == nullptr ? R(1) : static_cast<R>(*rate);
    for (std::int64_t c = group.lane * kPack; c < shape.width; c += Group::lanes * kPack) {
      R x[kPack];
      if (counts) shape.load(logits, begin, c, x);
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const R share = counts ? math::exp(x[e] - top - log_sum) - smooth - (c + e == target ? certain : R(0)) : R(0);
        x[e] = counts ? share * scale : R(0);
      }
      shape.store(dx, begin, c, x);
    }
  }
};

template <class R, DType kType>
void backward(const Context& context, const kernels::LossBackward& io) {
  const std::int64_t classes = io.logits.dim(1);
  rows(context, io.logits.dim(0), classes,
       LossVjpRows<R, kType>{io.options.label_smoothing / static_cast<double>(io.classes()),
                             io.options.label_smoothing,
                             io.options.ignore_index,
                             {classes, {&io.logits, &io.dx}},
                             elements<R>(io.logits),
                             elements<R>(io.dx),
                             pointer<std::int32_t>(io.targets),
                             pointer<R>(io.peaks),
                             pointer<double>(io.rate)});
}

template <class R>
void sum_errors(const Context& context, const kernels::AbsoluteErrors& io) {
  const R *const x = pointer<R>(io.x), *const y = pointer<R>(io.y);
  double* const to = pointer<double>(io.sum);
  total(
      context, io.x.numel(),
      [=] __device__(std::int64_t i) -> double { return fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])); },
      [=] __device__(double sum) { *to = sum; });
}

}  // namespace

template <>
void kernels::check_targets<Device::cuda>(const Context& context, const TargetCheck& io) {
  const std::int32_t* const targets = pointer<std::int32_t>(io.targets);
  const std::int64_t classes = io.classes;
  const std::int32_t ignore = io.ignore_index;
  find_first(context, io.targets.numel(), io.place, [=] __device__(std::int64_t row) {
    return targets[row] != ignore && (targets[row] < 0 || targets[row] >= classes);
  });
}

template <>
void kernels::cross_entropy<Device::cuda>(const Context& context, const LossForward& io) {
  visit_stored(io.logits.dtype(), [&]<class R, DType kType>() { forward<R, kType>(context, io); });
}

template <>
void kernels::share_of_loss<Device::cuda>(const Context& context, const LossShare& io) {
  const std::int64_t classes = io.logits.dim(1);
  visit_stored(io.logits.dtype(), [&]<class R, DType kType>() {
    rows(context, io.logits.dim(0), classes,
         ShareRows<R, kType>{io.ignore_index,
                             {classes, {&io.logits}},
                             elements<R>(io.logits),
                             pointer<std::int32_t>(io.targets),
                             pointer<R>(io.peaks),
                             pointer<double>(io.given)});
  });
}

template <>
void kernels::mean_loss<Device::cuda>(const Context& context, const MeanLoss& io) {
  const double* const sums = pointer<double>(io.sums);
  const Elements<double> loss = elements<double>(io.loss);
  each(context, 1, [=] __device__(std::int64_t) { loss.put(0, sums[1] == 0.0 ? 0.0 : sums[0] / sums[1]); });
}

template <>
void kernels::loss_rate<Device::cuda>(const Context& context, const LossRate& io) {
  const double* const sums = pointer<double>(io.sums);
  const Elements<double> g = elements<double>(io.g), rate = elements<double>(io.rate);
  each(context, 1, [=] __device__(std::int64_t) { rate.put(0, sums[1] == 0.0 ? 0.0 : g[0] / sums[1]); });
}

template <>
void kernels::cross_entropy_backward<Device::cuda>(const Context& context, const LossBackward& io) {
  visit_stored(io.logits.dtype(), [&]<class R, DType kType>() { backward<R, kType>(context, io); });
}

template <>
void kernels::absolute_errors<Device::cuda>(const Context& context, const AbsoluteErrors& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { sum_errors<R>(context, io); });
}

}  // namespace fovea

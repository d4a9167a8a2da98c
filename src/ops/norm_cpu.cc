#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "ops/dropout-inl.h"
#include "ops/norm_cpu.h"
#include "ops/row_reduce-inl.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// All three norms are xhat = (x - shift) * factor, and their gradient is
//   factor * (g - [layer] mean(g) - pull * xhat * mean(g xhat)).
// The layer norm has pull 1, the others shift 0; so two numbers a row are kept: factor, and shift or pull.
template <class R>
struct RowStats {
  R factor, shift, pull;
};

template <class T>
Wide<T> squares_of(const T* HWY_RESTRICT x, Wide<T> shift, std::int64_t width) {
  using R = Wide<T>;
  R sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    const R centred = static_cast<R>(x[i]) - shift;
    sum += centred * centred;
  }
  return sum;
}

template <class T>
RowStats<Wide<T>> measure(NormKind kind, const T* x, std::int64_t width, Wide<T> eps) {
  using R = Wide<T>;
  const R shift = kind == NormKind::layer ? row_sum(x, width) / static_cast<R>(width) : R(0);
  const R power = squares_of(x, shift, width) / static_cast<R>(width);
  if (kind != NormKind::rms_a) return {1 / std::sqrt(power + eps), shift, R(1)};
  const R root = std::sqrt(power);
  return {1 / (root + eps), shift, root > 0 ? (root + eps) / root : R(0)};
}

template <class T, class R>
void write_normed(const T* HWY_RESTRICT x, const RowStats<R>& stats, const R* HWY_RESTRICT gain,
                  const R* HWY_RESTRICT bias, T* HWY_RESTRICT y, std::int64_t width) {
  const R shift = stats.shift, factor = stats.factor;
  for (std::int64_t i = 0; i < width; ++i) y[i] = T((static_cast<R>(x[i]) - shift) * factor * gain[i] + bias[i]);
}

template <class T, class R>
void write_sum(const T* HWY_RESTRICT x, const T* HWY_RESTRICT branch, const R* HWY_RESTRICT factors,
               T* HWY_RESTRICT sum, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) sum[i] = T(static_cast<R>(x[i]) + static_cast<R>(branch[i]) * factors[i]);
}

template <class T>
void forward_typed(const cpu::NormForward& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t width = io.x.dim(1);
  std::vector<R> factors(static_cast<std::size_t>(io.branch.defined() ? width : 0), R(1));
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * width;
    T* sum = io.sum.data<T>() + at;
    if (io.branch.defined()) {
      if (io.keep.active()) dropout_factors(io.keep, at, width, factors.data());
      write_sum(io.x.data<T>() + at, io.branch.data<T>() + at, factors.data(), sum, width);
    }
    const RowStats<R> stats = measure(io.kind, sum, width, static_cast<R>(io.eps));
    io.stats.data<R>()[2 * row] = stats.factor;
    io.stats.data<R>()[2 * row + 1] = io.kind == NormKind::layer ? stats.shift : stats.pull;
    write_normed(sum, stats, io.gain.data<R>(), io.bias.data<R>(), io.y.data<T>() + at, width);
  }
}

// One row of backward: pointers into it, and the sums over rows that it adds to.
template <class T, class R>
struct PullRow {
  const T *x, *g, *g_sum;  // g_sum may be null
  const R* gain;
  T* dx;
  R *d_gain, *d_bias;
  std::int64_t width;
};

template <bool kSum, class T, class R>
void pull_row(const PullRow<T, R>& row, const RowStats<R>& stats, bool centred) {
  const T *HWY_RESTRICT x = row.x, *HWY_RESTRICT g = row.g, *HWY_RESTRICT g_sum = row.g_sum;
  const R* HWY_RESTRICT gain = row.gain;
  T* HWY_RESTRICT dx = row.dx;
  R *HWY_RESTRICT d_gain = row.d_gain, *HWY_RESTRICT d_bias = row.d_bias;
  const R shift = stats.shift, factor = stats.factor;
  R plain = 0, crossed = 0;
#pragma omp simd reduction(+ : plain, crossed)
  for (std::int64_t i = 0; i < row.width; ++i) {
    const R scaled = static_cast<R>(g[i]) * gain[i];
    plain += scaled;
    crossed += scaled * ((static_cast<R>(x[i]) - shift) * factor);
  }
  const R mean = centred ? plain / static_cast<R>(row.width) : R(0);
  const R along = stats.pull * crossed / static_cast<R>(row.width);
  for (std::int64_t i = 0; i < row.width; ++i) {
    const R xhat = (static_cast<R>(x[i]) - shift) * factor, gi = static_cast<R>(g[i]);
    const R through = factor * (gi * gain[i] - mean - along * xhat);
    dx[i] = T(kSum ? through + static_cast<R>(g_sum[i]) : through);
    d_gain[i] += gi * xhat;
    d_bias[i] += gi;
  }
}

template <class T, class R>
void write_kept(const T* HWY_RESTRICT dx, const R* HWY_RESTRICT factors, T* HWY_RESTRICT branch, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) branch[i] = T(static_cast<R>(dx[i]) * factors[i]);
}

template <class T>
void backward_typed(const cpu::NormBackward& io, std::int64_t block, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t width = io.sum.dim(1);
  const bool centred = io.kind == NormKind::layer;
  std::vector<R> factors(static_cast<std::size_t>(width));
  R *d_gain = io.partial_gain.data<R>() + block * width, *d_bias = io.partial_bias.data<R>() + block * width;
  std::fill_n(d_gain, width, R(0));
  std::fill_n(d_bias, width, R(0));
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * width;
    const R *kept = io.stats.data<R>() + 2 * row, factor = kept[0];
    const RowStats<R> stats = centred ? RowStats<R>{factor, kept[1], R(1)} : RowStats<R>{factor, R(0), kept[1]};
    PullRow<T, R> pointers{io.sum.data<T>() + at,
                           io.g.data<T>() + at,
                           nullptr,
                           io.gain.data<R>(),
                           io.dx.data<T>() + at,
                           d_gain,
                           d_bias,
                           width};
    if (io.g_sum.defined()) {
      pointers.g_sum = io.g_sum.data<T>() + at;
      pull_row<true>(pointers, stats, centred);
    } else {
      pull_row<false>(pointers, stats, centred);
    }
    if (!io.dbranch.defined()) continue;
    dropout_factors(io.keep, at, width, factors.data());
    write_kept(pointers.dx, factors.data(), io.dbranch.data<T>() + at, width);
  }
}

void norm_forward_rows(const cpu::NormForward& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { forward_typed<T>(io, begin, end); });
}

void norm_backward_rows(const cpu::NormBackward& io, std::int64_t block, std::int64_t begin, std::int64_t end) {
  visit_float(io.sum.dtype(), [&]<class T>() { backward_typed<T>(io, block, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(norm_forward_rows);
HWY_EXPORT(norm_backward_rows);

}  // namespace

void cpu::norm_forward(const Context& context, const NormForward& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_forward_rows);
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

void cpu::norm_backward(const Context& context, const NormBackward& io, const RowBlocks& blocks) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_backward_rows);
  for_blocks(context, blocks,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) { rows(io, block, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>

#include "hwy/highway.h"
#include "ops/cpu/column_sum.h"
#include "ops/cpu/dropout-inl.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/norm_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// All norms are xhat = (x - shift) * factor, and their gradient is
//   factor * (g - [layer] mean(g) - pull * xhat * mean(g xhat)).
// The layer norm has pull 1, the others shift 0; the length of a row is its root mean square times the root of its
// width, so its pull is the width, and 0 where eps took over. So two numbers a row are kept: factor, and shift or pull.
template <class R>
struct RowStats {
  R factor, shift, pull;
};

template <class T>
RowStats<Wide<T>> measure(NormKind kind, const T* x, std::int64_t width, Wide<T> eps) {
  using R = Wide<T>;
  const R shift = kind == NormKind::layer ? row_sum(x, width) / static_cast<R>(width) : R(0);
  const R squares = row_squares(x, shift, width);
  if (kind == NormKind::l2) {
    const R length = std::sqrt(squares);
    return length > eps ? RowStats<R>{1 / length, shift, static_cast<R>(width)} : RowStats<R>{1 / eps, shift, R(0)};
  }
  const R power = squares / static_cast<R>(width);
  if (kind != NormKind::rms_a) return {1 / std::sqrt(power + eps), shift, R(1)};
  const R root = std::sqrt(power);
  return {1 / (root + eps), shift, root > 0 ? (root + eps) / root : R(0)};
}

template <class R>
struct Affine {
  const R *gain, *bias;
};

template <class T, class R>
void write_normed(const T* HWY_RESTRICT x, const RowStats<R>& stats, const Affine<R>& affine, T* HWY_RESTRICT y,
                  std::int64_t width) {
  const R shift = stats.shift, factor = stats.factor;
  const R *gain = affine.gain, *bias = affine.bias;
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) y[i] = T((static_cast<R>(x[i]) - shift) * factor * gain[i] + bias[i]);
}

template <class T, class R>
void write_sum(const T* HWY_RESTRICT x, const T* HWY_RESTRICT branch, const R* HWY_RESTRICT factors,
               T* HWY_RESTRICT sum, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) sum[i] = T(static_cast<R>(x[i]) + static_cast<R>(branch[i]) * factors[i]);
}

template <class T>
void forward_typed(const kernels::NormForward& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t width = io.x.dim(1);
  const Affine<R> affine{io.gain.data<R>(), io.bias.data<R>()};
  const T *x = io.x.data<T>(), *branch = io.branch.defined() ? io.branch.data<T>() : nullptr;
  T *sum = io.sum.data<T>(), *y = io.y.data<T>();
  R* kept = io.stats.data<R>();
  RowFactors<R> factors(io.keep, width);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * width;
    if (branch != nullptr) write_sum(x + at, branch + at, factors.row(row, end), sum + at, width);
    const RowStats<R> stats = measure(io.kind, sum + at, width, static_cast<R>(io.eps));
    kept[2 * row] = stats.factor;
    kept[2 * row + 1] = io.kind == NormKind::layer ? stats.shift : stats.pull;
    write_normed(sum + at, stats, affine, y + at, width);
  }
}

// One row of backward: pointers into it, and the sums over rows that it adds to.
template <class T, class R>
struct VjpRow {
  const T *x, *g, *g_sum;  // g_sum may be null
  const R* gain;
  T* dx;
  R *d_gain, *d_bias;
  std::int64_t width;
};

template <class R>
struct Moments {
  R plain, crossed;  // sums of g gain, and of g gain xhat
  R offset;          // sum of xhat: of the layer norm, what the mean lost when it was rounded
};

template <class T, class R>
Moments<R> moments(const VjpRow<T, R>& row, const RowStats<R>& stats) {
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, stats.shift);
  auto plain = hn::Zero(d), crossed = hn::Zero(d), offset = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= row.width; i += lanes) {
    const auto scaled = hn::Mul(load_wide(d, row.g + i), hn::LoadU(d, row.gain + i));
    const auto centred = hn::Sub(load_wide(d, row.x + i), shift);
    plain = hn::Add(plain, scaled);
    crossed = hn::MulAdd(scaled, centred, crossed);
    offset = hn::Add(offset, centred);
  }
  const auto sum = [&](auto lanes_of) { return hn::GetLane(hn::SumOfLanes(d, lanes_of)); };
  Moments<R> sums{sum(plain), sum(crossed), sum(offset)};
  for (; i < row.width; ++i) {
    const R scaled = static_cast<R>(row.g[i]) * row.gain[i], centred = static_cast<R>(row.x[i]) - stats.shift;
    sums.plain += scaled;
    sums.crossed += scaled * centred;
    sums.offset += centred;
  }
  sums.crossed *= stats.factor;
  sums.offset *= stats.factor;
  return sums;
}

template <bool kSum, class T, class R>
void vjp_row(const VjpRow<T, R>& row, const RowStats<R>& stats, bool centred) {
  const Moments<R> sums = moments(row, stats);
  const T *x = row.x, *g = row.g, *g_sum = row.g_sum;
  const R* gain = row.gain;
  T* dx = row.dx;
  R *d_gain = row.d_gain, *d_bias = row.d_bias;
  const R shift = stats.shift, factor = stats.factor;
  const R width = static_cast<R>(row.width), offset = centred ? sums.offset / width : R(0);
  const R along = stats.pull * (sums.crossed - sums.plain * offset) / width;
  const R mean = centred ? sums.plain / width - along * offset : R(0);
#pragma omp simd  // none of the rows overlap; with eight pointers the compiler would not check
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
void backward_typed(const kernels::NormBackward& io, const Tensor& partial, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t width = io.sum.dim(1);
  const bool centred = io.kind == NormKind::layer;
  R *d_gain = partial.data<R>(), *d_bias = d_gain + partial.stride(0);  // partial (2, 1, width)
  std::fill_n(d_gain, width, R(0));
  std::fill_n(d_bias, width, R(0));
  VjpRow<T, R> row{io.sum.data<T>(), io.g.data<T>(), nullptr, io.gain.data<R>(),
                   io.dx.data<T>(),  d_gain,         d_bias,  width};
  if (io.g_sum.defined()) row.g_sum = io.g_sum.data<T>();
  T* branch = io.dbranch.defined() ? io.dbranch.data<T>() : nullptr;
  const R* kept = io.stats.data<R>();
  RowFactors<R> factors(io.keep, width);
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t at = r * width;
    VjpRow<T, R> here = row;
    here.x += at;
    here.g += at;
    here.dx += at;
    const R factor = kept[2 * r], other = kept[2 * r + 1];
    const RowStats<R> stats = centred ? RowStats<R>{factor, other, R(1)} : RowStats<R>{factor, R(0), other};
    if (row.g_sum != nullptr) {
      here.g_sum += at;
      vjp_row<true>(here, stats, centred);
    } else {
      vjp_row<false>(here, stats, centred);
    }
    if (branch != nullptr) write_kept(here.dx, factors.row(r, end), branch + at, width);
  }
}

void norm_forward_rows(const kernels::NormForward& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { forward_typed<T>(io, begin, end); });
}

void norm_backward_rows(const kernels::NormBackward& io, const Tensor& partial, std::int64_t begin, std::int64_t end) {
  visit_float(io.sum.dtype(), [&]<class T>() { backward_typed<T>(io, partial, begin, end); });
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

template <>
void kernels::norm_forward<Device::cpu>(const Context& context, const NormForward& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_forward_rows);
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

// Blocks of rows in parallel, each with its sums of the gradients of gain and bias; then those in order.
template <>
void kernels::norm_backward<Device::cpu>(const Context& context, const NormBackward& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_backward_rows);
  const std::int64_t width = io.sum.dim(1);
  const RowBlocks blocks(io.sum.dim(0), width);
  const Tensor partial = Tensor::empty(context, {2, blocks.count, width}, wide_type(io.sum.dtype()), Lifetime::scratch);
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    rows(io, partial.slice(1, block, block + 1), begin, end);
  });
  if (width == 0) return;
  const auto join = [&](const Tensor& parts, const Tensor& to) {
    if (!to.defined()) return;
    to.fill(0.0);
    cpu::add_columns({parts, {}}, 0, blocks.count, to.raw());
  };
  join(partial.select(0, 0), io.d_gain);
  join(partial.select(0, 1), io.d_bias);
}

}  // namespace fovea
#endif  // HWY_ONCE

#include "core/wide.h"
#include "mechanisms/kernel/mixing_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr double kLeast = 1e-8;  // of a mixing weight

// Matrices t (n, count) whose columns sum to 1. Only differences along a row count, and those of a row that has nearly
// all of every column would be lost in its ones: of such a row, what the others leave is taken instead, t - 1.
template <class R>
struct MixingRows {
  std::int64_t n, count;
  const R *t, *share;        // (matrices, n, count), (matrices, count)
  const std::int32_t* full;  // (matrices): the row that has over half of the columns; -1: none
  const R* rest;             // (matrices, count)
  R beta;

  __device__ R value(std::int64_t row, std::int64_t a) const {
    const std::int64_t matrix = row / n;
    return row % n == full[matrix] ? rest[matrix * count + a] : t[row * count + a];
  }
  template <class G>
  __device__ R mean(const G& g) const {
    R sum = 0;
    for (std::int64_t a = g.lane; a < count; a += g.lanes) sum += value(g.row, a);
    return g.sum(sum) / static_cast<R>(count);
  }
  __device__ R alpha(std::int64_t row, std::int64_t a, R mean) const {
    return share[row / n * count + a] + beta * (value(row, a) - mean);
  }
};

// The full rows of the matrices and what the others leave of them.
struct FullRows {
  FullRows(const Context& context, const Tensor& t)
      : full(Tensor::empty(context, {t.dim(0) * t.dim(1)}, DType::i32, Lifetime::scratch)),
        rest(Tensor::empty(context, {t.dim(0) * t.dim(1), t.dim(3)}, t.dtype(), Lifetime::scratch)) {}

  Tensor full, rest;
};

template <class R>
MixingRows<R> find_full(const Context& context, const Tensor& t, const FullRows& to) {
  const std::int64_t n = t.dim(2), count = t.dim(3);
  const R* const from = pointer<R>(t);
  std::int32_t* const full = pointer<std::int32_t>(to.full);
  R* const rest = pointer<R>(to.rest);
  to.full.fill(-1.0);
  rows(context, to.full.numel() * n, count, [=] __device__(const auto& g) {
    R sum = 0;
    for (std::int64_t a = g.lane; a < count; a += g.lanes) sum += from[g.row * count + a];
    sum = g.sum(sum);
    if (g.lane == 0 && sum > static_cast<R>(count) / 2) full[g.row / n] = static_cast<std::int32_t>(g.row % n);
  });
  rows(context, to.rest.numel(), n, [=] __device__(const auto& g) {
    const std::int64_t matrix = g.row / count, own = full[matrix];
    R sum = 0;
    for (std::int64_t i = g.lane; own >= 0 && i < n; i += g.lanes)
      if (i != own) sum -= from[(matrix * n + i) * count + g.row % count];
    sum = g.sum(sum);
    if (g.lane == 0) rest[g.row] = sum;
  });
  return {n, count, from, nullptr, full, rest, 0};
}

// The same with shares and beta.
template <class R, class Io>
MixingRows<R> mixing_of(const Context& context, const Io& io, const FullRows& full) {
  MixingRows<R> mixing = find_full<R>(context, io.t, full);
  mixing.share = pointer<R>(io.share);
  mixing.beta = static_cast<R>(io.beta);
  return mixing;
}

template <class R>
void mix(const Context& context, const kernels::LogMixing& io) {
  const FullRows full(context, io.t);
  const MixingRows<R> mixing = mixing_of<R>(context, io, full);
  const R* const offset = pointer<R>(io.offset);
  R* const out = pointer<R>(io.out);
  rows(context, io.t.numel() / mixing.count, mixing.count, [=] __device__(const auto& g) {
    const R mean = mixing.mean(g), least = static_cast<R>(kLeast);
    for (std::int64_t a = g.lane; a < mixing.count; a += g.lanes) {
      const R alpha = mixing.alpha(g.row, a, mean);
      out[g.row * mixing.count + a] = log(alpha < least ? least : alpha) + offset[g.row / mixing.n * mixing.count + a];
    }
  });
}

// d_t of every row, as if the full ones were like the others; what goes to their shares stands in d_alpha.
template <class R>
void vjp_rows(const Context& context, const kernels::LogMixingVjp& io, const MixingRows<R>& mixing,
              const Tensor& d_alpha) {
  const R* const seed = pointer<R>(io.g);
  R *const dt = pointer<R>(io.d_t), *const kept = pointer<R>(d_alpha);
  const std::int64_t count = mixing.count;
  rows(context, io.t.numel() / count, count, [=] __device__(const auto& g) {
    const R mean = mixing.mean(g);
    R sum = 0;
    for (std::int64_t a = g.lane; a < count; a += g.lanes) {
      const std::int64_t at = g.row * count + a;
      const R alpha = mixing.alpha(g.row, a, mean);
      kept[at] = alpha > static_cast<R>(kLeast) ? seed[at] / alpha : R(0);
      sum += kept[at];
    }
    sum = g.sum(sum) / static_cast<R>(count);
    for (std::int64_t a = g.lane; a < count; a += g.lanes)
      dt[g.row * count + a] = mixing.beta * (kept[g.row * count + a] - sum);
  });
}

template <class R>
void vjp(const Context& context, const kernels::LogMixingVjp& io) {
  const FullRows full(context, io.t);
  const MixingRows<R> mixing = mixing_of<R>(context, io, full);
  const std::int64_t n = mixing.n, count = mixing.count;
  if (io.t.numel() == 0) return;
  const Tensor d_alpha = Tensor::empty(context, io.t.shape(), io.t.dtype(), Lifetime::scratch);
  vjp_rows<R>(context, io, mixing, d_alpha);
  const R *const seed = pointer<R>(io.g), *const kept = pointer<R>(d_alpha);
  R *const dt = pointer<R>(io.d_t), *const d_share = pointer<R>(io.d_share), *const d_offset = pointer<R>(io.d_offset);
  rows(context, io.d_share.numel(), n, [=] __device__(const auto& g) {
    const std::int64_t first = g.row / count * n * count + g.row % count, own = mixing.full[g.row / count];
    R share = 0, offset = 0;
    for (std::int64_t i = g.lane; i < n; i += g.lanes) {
      share += kept[first + i * count];
      offset += seed[first + i * count];
    }
    share = g.sum(share);
    offset = g.sum(offset);
    const R of_full = own >= 0 ? dt[first + own * count] : R(0);
    g.sync();
    for (std::int64_t i = g.lane; own >= 0 && i < n; i += g.lanes)
      dt[first + i * count] = i == own ? R(0) : dt[first + i * count] - of_full;
    if (g.lane > 0) return;
    d_share[g.row] += share;
    d_offset[g.row] += offset;
  });
}

}  // namespace

template <>
void kernels::log_mixing<Device::cuda>(const Context& context, const LogMixing& io) {
  visit_wide(io.t.dtype(), [&]<class R>() { mix<R>(context, io); });
}

template <>
void kernels::log_mixing_backward<Device::cuda>(const Context& context, const LogMixingVjp& io) {
  visit_wide(io.t.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

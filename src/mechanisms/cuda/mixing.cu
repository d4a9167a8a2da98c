#include "core/wide.h"
#include "mechanisms/kernel/mixing_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr double kLeast = 1e-8;  // of a mixing weight

// Numbers that sum to 1 are nearly 1 where one of them has nearly all, and then their differences are lost: of a number
// over half what the others leave is taken instead, and its 1 is counted apart.
template <class R>
__device__ inline bool is_most(R x) {
  return x > R(0.5);
}

// The weights of all matrices, t (matrices, n, count) and shares (matrices, count, count).
template <class R>
struct Mixing {
  std::int64_t n, count;
  double beta;
  const R *t, *shares;
  const std::int32_t* full;  // (matrices, count): the row that has over half of a column; -1: none
  const R* rest;             // (matrices, count): of that row, less 1
  const R* share;            // (matrices, count): less 1 where it is whole

  __device__ bool is_full(std::int64_t row, std::int64_t a) const { return full[row / n * count + a] == row % n; }
  __device__ bool is_whole(std::int64_t column) const { return is_most(shares[column * count + column % count]); }
  __device__ R part(std::int64_t row, std::int64_t a) const {
    return is_full(row, a) ? rest[row / n * count + a] : t[row * count + a];
  }
  // Of a row's parts, and how many ones they go with.
  struct Mean {
    R parts, ones;
  };
  template <class G>
  __device__ Mean mean(const G& g) const {
    R sum = 0, ones = 0;
    for (std::int64_t a = g.lane; a < count; a += g.lanes) {
      sum += part(g.row, a);
      ones += is_full(g.row, a) ? R(1) : R(0);
    }
    sum = g.sum(sum);
    return {sum / static_cast<R>(count), g.sum(ones)};
  }
  // share_aa + beta (t_ia - mean over a of t_i)
  __device__ R alpha(std::int64_t row, std::int64_t a, const Mean& mean) const {
    const std::int64_t column = row / n * count + a;
    const double all = static_cast<double>(count), own = is_full(row, a) ? all : 0.0;
    const double whole = (is_whole(column) ? all : 0.0) + beta * (own - static_cast<double>(mean.ones));
    return static_cast<R>(whole / all) + (share[column] + static_cast<R>(beta) * (part(row, a) - mean.parts));
  }
};

// What numbers over half are taken for.
struct Parts {
  Parts(const Context& context, const Tensor& t)
      : full(Tensor::empty(context, {t.dim(0) * t.dim(1), t.dim(3)}, DType::i32, Lifetime::scratch)),
        rest(Tensor::empty(context, full.shape(), t.dtype(), Lifetime::scratch)),
        share(Tensor::empty(context, full.shape(), t.dtype(), Lifetime::scratch)) {}

  Tensor full, rest, share;
};

template <class R>
void find_full(const Context& context, const Mixing<R>& m, const Parts& to) {
  std::int32_t* const full = pointer<std::int32_t>(to.full);
  R* const rest = pointer<R>(to.rest);
  to.full.fill(-1.0);
  rows(context, to.full.numel(), m.n, [=] __device__(const auto& g) {
    const std::int64_t first = g.row / m.count * m.n * m.count + g.row % m.count;
    for (std::int64_t i = g.lane; i < m.n; i += g.lanes)
      if (is_most(m.t[first + i * m.count])) full[g.row] = static_cast<std::int32_t>(i);  // one of them at most
  });
  rows(context, to.full.numel(), m.n, [=] __device__(const auto& g) {
    const std::int64_t first = g.row / m.count * m.n * m.count + g.row % m.count, own = full[g.row];
    R sum = 0;
    for (std::int64_t i = g.lane; own >= 0 && i < m.n; i += g.lanes)
      if (i != own) sum -= m.t[first + i * m.count];
    sum = g.sum(sum);
    if (g.lane == 0) rest[g.row] = sum;
  });
}

template <class R>
void find_shares(const Context& context, const Mixing<R>& m, const Parts& to) {
  R* const share = pointer<R>(to.share);
  rows(context, to.share.numel(), m.count, [=] __device__(const auto& g) {
    const std::int64_t own = g.row % m.count;
    R sum = 0;
    for (std::int64_t b = g.lane; b < m.count; b += g.lanes)
      if (b != own) sum -= m.shares[g.row * m.count + b];
    sum = g.sum(sum);
    if (g.lane == 0) share[g.row] = m.is_whole(g.row) ? sum : m.shares[g.row * m.count + own];
  });
}

template <class R, class Io>
Mixing<R> mixing_of(const Context& context, const Io& io, const Parts& parts) {
  const Mixing<R> mixing{io.t.dim(2),
                         io.t.dim(3),
                         io.beta,
                         pointer<R>(io.t),
                         pointer<R>(io.shares),
                         pointer<std::int32_t>(parts.full),
                         pointer<R>(parts.rest),
                         pointer<R>(parts.share)};
  find_full(context, mixing, parts);
  find_shares(context, mixing, parts);
  return mixing;
}

template <class R>
void mix(const Context& context, const kernels::LogMixing& io) {
  if (io.t.numel() == 0) return;
  const Parts parts(context, io.t);
  const Mixing<R> mixing = mixing_of<R>(context, io, parts);
  const R* const offset = pointer<R>(io.offset);
  R* const out = pointer<R>(io.out);
  rows(context, io.t.numel() / mixing.count, mixing.count, [=] __device__(const auto& g) {
    const auto mean = mixing.mean(g);
    const R least = static_cast<R>(kLeast);
    for (std::int64_t a = g.lane; a < mixing.count; a += g.lanes) {
      const R alpha = mixing.alpha(g.row, a, mean);
      out[g.row * mixing.count + a] = log(alpha < least ? least : alpha) + offset[g.row / mixing.n * mixing.count + a];
    }
  });
}

// Gradients of the parts of every row in d_t; what goes to the shares stands in d_alpha.
template <class R>
void vjp_rows(const Context& context, const kernels::LogMixingVjp& io, const Mixing<R>& mixing, const Tensor& d_alpha) {
  const R* const seed = pointer<R>(io.g);
  R *const dt = pointer<R>(io.d_t), *const kept = pointer<R>(d_alpha);
  const std::int64_t count = mixing.count;
  rows(context, io.t.numel() / count, count, [=] __device__(const auto& g) {
    const auto mean = mixing.mean(g);
    R sum = 0;
    for (std::int64_t a = g.lane; a < count; a += g.lanes) {
      const std::int64_t at = g.row * count + a;
      const R alpha = mixing.alpha(g.row, a, mean);
      kept[at] = alpha > static_cast<R>(kLeast) ? seed[at] / alpha : R(0);
      sum += kept[at];
    }
    sum = g.sum(sum) / static_cast<R>(count);
    for (std::int64_t a = g.lane; a < count; a += g.lanes)
      dt[g.row * count + a] = static_cast<R>(mixing.beta) * (kept[g.row * count + a] - sum);
  });
}

template <class R>
void vjp(const Context& context, const kernels::LogMixingVjp& io) {
  if (io.t.numel() == 0) return;
  const Parts parts(context, io.t);
  const Mixing<R> mixing = mixing_of<R>(context, io, parts);
  const std::int64_t n = mixing.n, count = mixing.count;
  const Tensor d_alpha = Tensor::empty(context, io.t.shape(), io.t.dtype(), Lifetime::scratch);
  vjp_rows<R>(context, io, mixing, d_alpha);
  const R *const seed = pointer<R>(io.g), *const kept = pointer<R>(d_alpha);
  R *const dt = pointer<R>(io.d_t), *const d_shares = pointer<R>(io.d_shares),
           *const d_offset = pointer<R>(io.d_offset);
  rows(context, io.d_offset.numel(), n, [=] __device__(const auto& g) {
    const std::int64_t first = g.row / count * n * count + g.row % count, own = mixing.full[g.row];
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
    const bool whole = mixing.is_whole(g.row);
    for (std::int64_t b = g.lane; b < count; b += g.lanes)
      if ((b == g.row % count) != whole) d_shares[g.row * count + b] += whole ? -share : share;
    if (g.lane == 0) d_offset[g.row] += offset;
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

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
struct MixingView {
  std::int64_t n, count;
  const R *t, *rest;         // rest (matrices, count)
  const std::int32_t* full;  // (matrices): the row that has over half of the columns; -1: none

  // Of row i of all.
  __device__ bool is_full(std::int64_t i) const { return full[i / n] == i % n; }
  __device__ R operator()(std::int64_t i, std::int64_t a) const {
    return is_full(i) ? rest[i / n * count + a] : t[i * count + a];
  }
  // share_a + beta (t_ia - mean over a of t_i)
  template <class Group>
  __device__ R mean(const Group& g) const {
    R sum(0);
    for (std::int64_t a = g.lane; a < count; a += g.lanes) sum += (*this)(g.row, a);
    return g.sum(sum) / static_cast<R>(count);
  }
};

template <class R>
class Mixing {
 public:
  Mixing(const Context& context, const Tensor& t)
      : rest_(Tensor::zeros(context, {t.dim(0), t.dim(1), t.dim(3)}, t.dtype(), Lifetime::scratch)),
        full_(Tensor::empty(context, {t.dim(0), t.dim(1)}, DType::i32, Lifetime::scratch)) {
    full_.fill(-1.0);
    find(context, t);
  }
  MixingView<R> view(const Tensor& t) const {
    return {t.dim(2), t.dim(3), t.data<R>(), rest_.data<R>(), full_.data<std::int32_t>()};
  }

  // A lambda of the card cannot stand in a constructor.
  void find(const Context& context, const Tensor& t) const {
    const std::int64_t n = t.dim(2), count = t.dim(3);
    const R* const from = t.data<R>();
    R* const rest = rest_.data<R>();
    std::int32_t* const full = full_.data<std::int32_t>();
    rows(context, full_.numel() * n, count, [=] __device__(const auto& g) {
      R sum(0);
      for (std::int64_t a = g.lane; a < count; a += g.lanes) sum += from[g.row * count + a];
      if (g.sum(sum) > static_cast<R>(count) / 2 && g.lane == 0) full[g.row / n] = static_cast<std::int32_t>(g.row % n);
    });
    each(context, rest_.numel(), [=] __device__(std::int64_t e) {
      const std::int64_t matrix = e / count, a = e % count;
      if (full[matrix] < 0) return;
      R sum(0);
      for (std::int64_t i = 0; i < n; ++i)
        if (i != full[matrix]) sum -= from[(matrix * n + i) * count + a];
      rest[e] = sum;
    });
  }

 private:
  Tensor rest_, full_;
};

template <class R>
void write(const Context& context, const kernels::LogMixing& io) {
  const Mixing<R> mixing(context, io.t);
  const MixingView<R> t = mixing.view(io.t);
  const R *const share = io.share.data<R>(), *const offset = io.offset.data<R>();
  R* const out = io.out.data<R>();
  const auto beta = static_cast<R>(io.beta), least = static_cast<R>(kLeast);
  rows(context, io.t.numel() / t.count, t.count, [=] __device__(const auto& g) {
    const R mean = t.mean(g);
    for (std::int64_t a = g.lane; a < t.count; a += g.lanes) {
      const std::int64_t of_matrix = g.row / t.n * t.count + a;
      const R alpha = share[of_matrix] + beta * (t(g.row, a) - mean);
      out[g.row * t.count + a] = log(alpha > least ? alpha : least) + offset[of_matrix];
    }
  });
}

// d_t = g / alpha, and the mean of each row of that.
template <class R>
void divide(const Context& context, const kernels::LogMixingPull& io, const MixingView<R>& t, R* means) {
  const R *const share = io.share.data<R>(), *const seed = io.g.data<R>();
  R* const d_t = io.d_t.data<R>();
  const auto beta = static_cast<R>(io.beta), least = static_cast<R>(kLeast);
  rows(context, io.t.numel() / t.count, t.count, [=] __device__(const auto& g) {
    const R mean = t.mean(g);
    R sum(0);
    for (std::int64_t a = g.lane; a < t.count; a += g.lanes) {
      const R alpha = share[g.row / t.n * t.count + a] + beta * (t(g.row, a) - mean);
      const R pulled = alpha > least ? seed[g.row * t.count + a] / alpha : R(0);
      d_t[g.row * t.count + a] = pulled;
      sum += pulled;
    }
    sum = g.sum(sum);
    if (g.lane == 0) means[g.row] = sum / static_cast<R>(t.count);
  });
}

template <class R>
void add_up(const Context& context, const kernels::LogMixingPull& io) {
  const std::int64_t n = io.t.dim(2), count = io.t.dim(3);
  const R *const d_t = io.d_t.data<R>(), *const seed = io.g.data<R>();
  R *const d_share = io.d_share.data<R>(), *const d_offset = io.d_offset.data<R>();
  each(context, io.d_share.numel(), [=] __device__(std::int64_t e) {
    R share(0), offset(0);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = (e / count * n + i) * count + e % count;
      share += d_t[at];
      offset += seed[at];
    }
    d_share[e] += share;
    d_offset[e] += offset;
  });
}

template <class R>
void pull(const Context& context, const kernels::LogMixingPull& io) {
  const Mixing<R> mixing(context, io.t);
  const MixingView<R> t = mixing.view(io.t);
  const Tensor scratch = Tensor::empty(context, Shape{io.t.numel() / t.count}, io.t.dtype(), Lifetime::scratch);
  R *const means = scratch.data<R>(), *const d_t = io.d_t.data<R>();
  divide(context, io, t, means);
  add_up<R>(context, io);
  const auto beta = static_cast<R>(io.beta);
  each(context, io.t.numel(), [=] __device__(std::int64_t e) { d_t[e] = beta * (d_t[e] - means[e / t.count]); });
  // What a full row took from the others.
  each(context, io.t.numel(), [=] __device__(std::int64_t e) {
    const std::int64_t i = e / t.count, matrix = i / t.n;
    if (t.full[matrix] >= 0 && !t.is_full(i)) d_t[e] -= d_t[(matrix * t.n + t.full[matrix]) * t.count + e % t.count];
  });
  each(context, io.t.numel(), [=] __device__(std::int64_t e) {
    if (t.is_full(e / t.count)) d_t[e] = R(0);
  });
}

}  // namespace

template <>
void kernels::log_mixing<Device::cuda>(const Context& context, const LogMixing& io) {
  visit_wide(io.t.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::log_mixing_backward<Device::cuda>(const Context& context, const LogMixingPull& io) {
  visit_wide(io.t.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea

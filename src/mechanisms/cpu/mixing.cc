#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "mechanisms/kernel/mixing_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

constexpr double kLeast = 1e-8;  // of a mixing weight

// One matrix t (n, count) whose columns sum to 1. Only differences along a row count, and those of a row that has
// nearly all of every column would be lost in its ones: of such a row, what the others leave is taken instead, t - 1.
template <class R>
class MixingRows {
 public:
  MixingRows(const Tensor& t, std::int64_t matrix)
      : n_(t.dim(2)),
        count_(t.dim(3)),
        t_(t.data<R>() + matrix * n_ * count_),
        rest_(static_cast<std::size_t>(count_)) {
    for (std::int64_t i = 0; i < n_; ++i)
      if (std::accumulate(t_ + i * count_, t_ + (i + 1) * count_, R{0}) > static_cast<R>(count_) / 2) full_ = i;
    for (std::int64_t i = 0; full_ >= 0 && i < n_; ++i)
      for (std::int64_t a = 0; i != full_ && a < count_; ++a) rest_[static_cast<std::size_t>(a)] -= t_[i * count_ + a];
  }

  // share_a + beta (t_ia - mean over a of t_i)
  void mix(std::int64_t i, const R* share, R beta, R* alpha) const {
    const R* t = i == full_ ? rest_.data() : t_ + i * count_;
    const R mean = std::accumulate(t, t + count_, R{0}) / static_cast<R>(count_);
    for (std::int64_t a = 0; a < count_; ++a) alpha[a] = share[a] + beta * (t[a] - mean);
  }
  // Gradients of what mix() took in place of those of t.
  void vjp(R* dt) const {
    for (std::int64_t i = 0; full_ >= 0 && i < n_; ++i)
      for (std::int64_t a = 0; i != full_ && a < count_; ++a) dt[i * count_ + a] -= dt[full_ * count_ + a];
    if (full_ >= 0) std::fill_n(dt + full_ * count_, count_, R{0});
  }

 private:
  std::int64_t n_, count_;
  const R* t_;
  std::int64_t full_ = -1;  // the row that has over half of the columns, if any
  std::vector<R> rest_;
};

}  // namespace

template <>
void kernels::log_mixing<Device::cpu>(const Context& context, const LogMixing& io) {
  const std::int64_t n = io.t.dim(2), count = io.t.dim(3);
  visit_wide(io.t.dtype(), [&]<class R>() {
    parallel_for(context, io.t.dim(0) * io.t.dim(1), [&](std::int64_t matrix) {
      const MixingRows<R> rows(io.t, matrix);
      const R *shares = io.share.data<R>() + matrix * count, *offsets = io.offset.data<R>() + matrix * count;
      for (std::int64_t i = 0; i < n; ++i) {
        R* to = io.out.data<R>() + (matrix * n + i) * count;
        rows.mix(i, shares, static_cast<R>(io.beta), to);
        for (std::int64_t a = 0; a < count; ++a) to[a] = std::log(std::max(to[a], static_cast<R>(kLeast))) + offsets[a];
      }
    });
  });
}

template <>
void kernels::log_mixing_backward<Device::cpu>(const Context& context, const LogMixingVjp& io) {
  const std::int64_t n = io.t.dim(2), count = io.t.dim(3);
  visit_wide(io.t.dtype(), [&]<class R>() {
    const R beta = static_cast<R>(io.beta);
    parallel_for(context, io.t.dim(0) * io.t.dim(1), [&](std::int64_t matrix) {
      const MixingRows<R> rows(io.t, matrix);
      R *d_share = io.d_share.data<R>() + matrix * count, *d_offset = io.d_offset.data<R>() + matrix * count;
      std::vector<R> alpha(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = (matrix * n + i) * count;
        const R* seed = io.g.data<R>() + at;
        R *dt = io.d_t.data<R>() + at, mean = 0;
        rows.mix(i, io.share.data<R>() + matrix * count, beta, alpha.data());
        for (std::int64_t a = 0; a < count; ++a) {
          const R value = alpha[static_cast<std::size_t>(a)];
          dt[a] = value > static_cast<R>(kLeast) ? seed[a] / value : R(0);
          mean += dt[a] / static_cast<R>(count);
          d_share[a] += dt[a];
          d_offset[a] += seed[a];
        }
        for (std::int64_t a = 0; a < count; ++a) dt[a] = beta * (dt[a] - mean);
      }
      rows.vjp(io.d_t.data<R>() + matrix * n * count);
    });
  });
}

}  // namespace fovea

#include <algorithm>
#include <cmath>
#include <vector>

#include "mechanisms/kernel/mixing_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

constexpr double kLeast = 1e-8;  // of a mixing weight

// The weights of one matrix. Numbers that sum to 1 are nearly 1 where one of them has nearly all, and then their
// differences are lost: of a number over half what the others leave is taken instead, and its 1 is counted apart.
template <class R>
class Mixing {
 public:
  Mixing(const Tensor& t, const Tensor& shares, double beta, std::int64_t matrix)
      : n_(t.dim(2)),
        count_(t.dim(3)),
        beta_(beta),
        t_(t.data<R>() + matrix * n_ * count_),
        shares_(shares.data<R>() + matrix * count_ * count_),
        full_(static_cast<std::size_t>(count_), -1),
        rest_(static_cast<std::size_t>(count_)) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t a = 0; a < count_; ++a)
        if (is_most(t_[i * count_ + a])) full(a) = i;
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t a = 0; a < count_; ++a)
        if (i != full(a)) rest_[static_cast<std::size_t>(a)] -= t_[i * count_ + a];
    for (std::int64_t a = 0; a < count_; ++a) share_.push_back(share(a));
  }

  // share_aa + beta (t_ia - mean over a of t_i)
  void mix(std::int64_t i, R* alpha) const {
    std::int64_t ones = 0;
    R mean = 0;
    for (std::int64_t a = 0; a < count_; ++a) {
      ones += i == full(a);
      mean += part(i, a) / static_cast<R>(count_);
    }
    const auto count = static_cast<double>(count_);
    for (std::int64_t a = 0; a < count_; ++a) {
      const double whole = count * is_whole(a) + beta_ * (count * (i == full(a)) - static_cast<double>(ones));
      alpha[a] = static_cast<R>(whole / count) +
                 (share_[static_cast<std::size_t>(a)] + static_cast<R>(beta_) * (part(i, a) - mean));
    }
  }

  // From those of the parts that mix() took: gradients of t, in place, and of shares.
  void vjp(R* dt, const R* d_share, R* d_shares) const {
    for (std::int64_t a = 0; a < count_; ++a) {
      for (std::int64_t b = 0; is_whole(a) && b < count_; ++b)
        if (b != a) d_shares[a * count_ + b] -= d_share[a];
      if (!is_whole(a)) d_shares[a * count_ + a] += d_share[a];
    }
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t a = 0; a < count_; ++a)
        if (full(a) >= 0 && i != full(a)) dt[i * count_ + a] -= dt[full(a) * count_ + a];
    for (std::int64_t a = 0; a < count_; ++a)
      if (full(a) >= 0) dt[full(a) * count_ + a] = 0;
  }

 private:
  static bool is_most(R x) { return x > R(0.5); }

  bool is_whole(std::int64_t a) const { return is_most(shares_[a * count_ + a]); }
  R share(std::int64_t a) const {
    if (!is_whole(a)) return shares_[a * count_ + a];
    R others = 0;
    for (std::int64_t b = 0; b < count_; ++b) others += b == a ? R(0) : shares_[a * count_ + b];
    return -others;
  }
  R part(std::int64_t i, std::int64_t a) const {
    return i == full(a) ? rest_[static_cast<std::size_t>(a)] : t_[i * count_ + a];
  }
  std::int64_t& full(std::int64_t a) { return full_[static_cast<std::size_t>(a)]; }
  std::int64_t full(std::int64_t a) const { return full_[static_cast<std::size_t>(a)]; }

  std::int64_t n_, count_;
  double beta_;
  const R *t_, *shares_;
  std::vector<std::int64_t> full_;  // the row that has over half of a column; -1: none
  std::vector<R> rest_;             // of that row, less 1
  std::vector<R> share_;            // less 1 where it is whole
};

}  // namespace

template <>
void kernels::log_mixing<Device::cpu>(const Context& context, const LogMixing& io) {
  const std::int64_t n = io.t.dim(2), count = io.t.dim(3);
  visit_wide(io.t.dtype(), [&]<class R>() {
    parallel_for(context, io.t.dim(0) * io.t.dim(1), [&](std::int64_t matrix) {
      const Mixing<R> mixing(io.t, io.shares, io.beta, matrix);
      const R* offsets = io.offset.data<R>() + matrix * count;
      for (std::int64_t i = 0; i < n; ++i) {
        R* to = io.out.data<R>() + (matrix * n + i) * count;
        mixing.mix(i, to);
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
      const Mixing<R> mixing(io.t, io.shares, io.beta, matrix);
      R* d_offset = io.d_offset.data<R>() + matrix * count;
      std::vector<R> alpha(static_cast<std::size_t>(count)), d_share(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = (matrix * n + i) * count;
        const R* seed = io.g.data<R>() + at;
        R *dt = io.d_t.data<R>() + at, mean = 0;
        mixing.mix(i, alpha.data());
        for (std::int64_t a = 0; a < count; ++a) {
          const R value = alpha[static_cast<std::size_t>(a)];
          dt[a] = value > static_cast<R>(kLeast) ? seed[a] / value : R(0);
          mean += dt[a] / static_cast<R>(count);
          d_share[static_cast<std::size_t>(a)] += dt[a];
          d_offset[a] += seed[a];
        }
        for (std::int64_t a = 0; a < count; ++a) dt[a] = beta * (dt[a] - mean);
      }
      mixing.vjp(io.d_t.data<R>() + matrix * n * count, d_share.data(), io.d_shares.data<R>() + matrix * count * count);
    });
  });
}

}  // namespace fovea

#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "gpu/support/mirror.h"
#include "scan/cuda/launch.h"
#include "unit/scan/harness.h"

// The cases of tests/unit/scan run on the card.
namespace fovea::scan::test {

// Numbers as an array of T on the card, (batch, rows, heads, dim) with `gap` elements behind every head: NaN, as is all
// of what the engine shall write.
template <class T>
class CardArray {
 public:
  CardArray(fovea::testing::Mirror& mirror, const std::vector<double>& values, std::int64_t outer, std::int64_t heads,
            std::int64_t dim, std::int64_t gap)
      : count_(values.size()), heads_(heads), dim_(dim), gap_(gap), outer_(outer) {
    host_.assign(dim == 0 ? 0 : count_ / static_cast<std::size_t>(dim) * static_cast<std::size_t>(dim + gap), nan());
    for (std::size_t i = 0; i < count_; ++i) host_[place(i)] = static_cast<T>(static_cast<Wide<T>>(values[i]));
    device_ = mirror.out(host_.data(), host_.size() * sizeof(T));
  }
  // (rows of a batch item) rows
  template <class A>
  A view() const {
    return {device_, outer_ * heads_ * (dim_ + gap_), heads_ * (dim_ + gap_), dim_ + gap_};
  }
  void* data() const { return device_; }
  bool gaps_are_untouched() const {
    const auto pitch = static_cast<std::size_t>(dim_ + gap_), dim = static_cast<std::size_t>(dim_);
    for (std::size_t i = 0; i < host_.size(); ++i)
      if (i % pitch >= dim && !std::isnan(static_cast<Wide<T>>(host_[i]))) return false;
    return true;
  }
  std::vector<double> values() const {
    std::vector<double> out(count_);
    for (std::size_t i = 0; i < count_; ++i) out[i] = static_cast<double>(static_cast<Wide<T>>(host_[place(i)]));
    return out;
  }

 private:
  static T nan() { return static_cast<T>(std::numeric_limits<Wide<T>>::quiet_NaN()); }
  std::size_t place(std::size_t i) const {
    const auto dim = static_cast<std::size_t>(dim_);
    return i / dim * (dim + static_cast<std::size_t>(gap_)) + i % dim;
  }

  std::vector<T> host_;
  std::size_t count_;
  std::int64_t heads_, dim_, gap_, outer_;
  void* device_ = nullptr;
};

// Which kernels ran.
struct Ran {
  cuda::Kernels forward, backward;
};

struct CardOptions {
  std::int64_t gap = 0;
  bool wide_outputs = false, with_rest = false;
  Ran* ran = nullptr;  // if not null, told
};

// Forward and backward in T on the card. What the engine leaves alone stays NaN.
template <class T, class O = T>
Results run_card(const Case& s, const Values& values, const CardOptions& options = {}) {
  using R = Wide<T>;
  Problem problem = s.problem(dtype_of<T>);
  problem.wide_outputs = options.wide_outputs;
  const std::int64_t gap = options.gap, decays = decay_columns(problem), columns = statistic_columns(problem);
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto empty = [&](const std::vector<double>& like) { return std::vector<double>(like.size(), kNan); };
  fovea::testing::Mirror mirror;
  const auto queries = [&]<class U>(const std::vector<double>& x, std::int64_t d, U) {
    return CardArray<U>(mirror, x, s.rows_q, s.heads, d, gap);
  };
  const auto keys = [&]<class U>(const std::vector<double>& x, std::int64_t d, U) {
    return CardArray<U>(mirror, x, s.rows_k, s.kv_heads, d, gap);
  };
  const auto q = queries(values.q, s.d_k, T{}), k = keys(values.k, s.d_k, T{}), v = keys(values.v, s.d_v, T{});
  const auto g = keys(values.log_decay, decays, R{}), d_g = keys(empty(values.log_decay), decays, R{});
  const auto o = queries(empty(values.d_o), s.d_v, O{}), d_o = queries(values.d_o, s.d_v, O{});
  const auto rest = queries(empty(values.d_o), s.d_v, O{});
  const auto dq = queries(empty(values.q), s.d_k, T{}), dk = keys(empty(values.k), s.d_k, T{});
  const auto dv = keys(empty(values.v), s.d_v, T{});
  const auto state = [&](const std::vector<double>& x) { return CardArray<R>(mirror, x, 1, 1, 1, 0); };
  const auto initial = state(values.initial), d_final = state(values.d_final);
  const auto final = state(empty(values.initial)), d_initial = state(empty(values.initial));
  const CardArray<R> statistic(mirror,
                               std::vector<double>(static_cast<std::size_t>(s.batch * s.rows_q * columns), kNan),
                               s.rows_q, 1, columns, 0);
  const auto row_statistic = [&]<class A>(A) { return columns == 0 ? A{} : statistic.template view<A>(); };
  const auto pointer = [&](const auto& x) { return s.states ? x.data() : nullptr; };
  const auto optional = [&]<class A>(A, const auto& x, bool wanted) { return wanted ? x.template view<A>() : A{}; };

  Forward forward{q.template view<In>(),  k.template view<In>(), v.template view<In>(), g.template view<In>(),
                  o.template view<Out>(), row_statistic(Out{}),  pointer(initial),      pointer(final)};
  forward.rest = optional(Out{}, rest, options.with_rest);
  Ran ran{};
  ran.forward = cuda::forward({}, problem, forward);
  Backward backward{q.template view<In>(),   k.template view<In>(),    v.template view<In>(),
                    g.template view<In>(),   o.template view<In>(),    row_statistic(In{}),
                    d_o.template view<In>(), pointer(initial),         s.save_state ? pointer(final) : nullptr,
                    pointer(d_final),        dq.template view<Out>(),  dk.template view<Out>(),
                    dv.template view<Out>(), d_g.template view<Out>(), pointer(d_initial)};
  backward.rest = optional(In{}, rest, options.with_rest && columns != 0);
  ran.backward = cuda::backward({}, problem, backward);
  if (options.ran != nullptr) *options.ran = ran;
  mirror.finish();
  EXPECT_TRUE(o.gaps_are_untouched() && rest.gaps_are_untouched() && dq.gaps_are_untouched() &&
              dk.gaps_are_untouched() && dv.gaps_are_untouched());
  return {o.values(),  statistic.values(), final.values(),     dq.values(),
          dk.values(), dv.values(),        d_initial.values(), d_g.values()};
}

}  // namespace fovea::scan::test

#include <algorithm>
#include <vector>

#include "ops/cpu/scalar.h"
#include "ops/experts_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

using kernels::Routed;

// The preferred expert of every row that is no padding.
template <class R>
void find_preferred(const Context& context, const kernels::RouteRows& io) {
  const std::int64_t experts = io.p.dim(1);
  std::int32_t* out = io.routed.expert.data<std::int32_t>();
  for_rows(context, io.p.dim(0), experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Span span = io.spans[static_cast<std::size_t>(row)];
      const R* at = io.p.data<R>() + row * experts;
      out[row] = span.begin == span.end ? -1 : static_cast<std::int32_t>(std::max_element(at, at + experts) - at);
    }
  });
}

// Who is taken by whom: rows in order, until an expert is full.
void fill_experts(std::int64_t capacity, const Routed& routed) {
  const auto experts = static_cast<std::size_t>(routed.share.numel());
  const std::int32_t* preferred = routed.expert.data<std::int32_t>();
  double* share = routed.share.data<double>();
  double& counted = *routed.counted.data<double>();
  std::int32_t& dropped = *routed.dropped.data<std::int32_t>();
  std::vector<std::vector<std::int32_t>> rows(experts);
  std::fill_n(share, experts, 0.0);
  counted = 0.0, dropped = 0;
  for (std::int64_t row = 0; row < routed.expert.numel(); ++row) {
    if (preferred[row] < 0) continue;
    const auto e = static_cast<std::size_t>(preferred[row]);
    counted += 1.0;
    share[e] += 1.0;
    if (std::ssize(rows[e]) < capacity)
      rows[e].push_back(static_cast<std::int32_t>(row));
    else
      ++dropped;
  }
  std::int32_t *tokens = routed.tokens.data<std::int32_t>(), *end = tokens + routed.tokens.numel();
  std::int32_t* begin = routed.begin.data<std::int32_t>();
  *begin = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    share[e] /= std::max(1.0, counted);
    tokens = std::copy(rows[e].begin(), rows[e].end(), tokens);
    begin[e + 1] = begin[e] + static_cast<std::int32_t>(rows[e].size());
  }
  std::fill(tokens, end, -1);
}

// experts * sum over e of share_e (mean of p_e).
template <class R>
double balance_of(const Routed& routed, const Tensor& p) {
  const auto experts = p.dim(1);
  const double* share = routed.share.data<double>();
  double sum = 0.0;
  for (std::int64_t row = 0; row < p.dim(0); ++row)
    if (routed.expert.data<std::int32_t>()[row] >= 0)
      for (std::int64_t e = 0; e < experts; ++e) sum += share[e] * static_cast<double>(p.data<R>()[row * experts + e]);
  return static_cast<double>(experts) * sum / std::max(1.0, *routed.counted.data<double>());
}

// f(k, i) for each row that is taken: its place in the order, and that of its expert in (rows, experts).
template <class F>
void for_taken(const Routed& routed, const F& f) {
  const std::int64_t experts = routed.share.numel();
  const std::int32_t *tokens = routed.tokens.data<std::int32_t>(), *preferred = routed.expert.data<std::int32_t>();
  const std::int32_t taken = routed.begin.data<std::int32_t>()[experts];
  for (std::int32_t k = 0; k < taken; ++k) f(k, tokens[k] * experts + preferred[tokens[k]]);
}

// Turns d (rows, experts), the gradient of the probabilities, into that of the logits: p (d - sum of p d).
template <class R>
void vjp_softmax(const Tensor& p, const Tensor& d, const Routed& routed) {
  const std::int64_t experts = p.dim(1);
  for (std::int64_t row = 0; row < p.dim(0); ++row) {
    R* to = d.data<R>() + row * experts;
    if (routed.expert.data<std::int32_t>()[row] < 0) {
      std::fill_n(to, experts, R(0));
      continue;
    }
    const R* at = p.data<R>() + row * experts;
    R mean = 0;
    for (std::int64_t e = 0; e < experts; ++e) mean += at[e] * to[e];
    for (std::int64_t e = 0; e < experts; ++e) to[e] = at[e] * (to[e] - mean);
  }
}

}  // namespace

template <>
void kernels::route<Device::cpu>(const Context& context, const RouteRows& io) {
  visit_wide(io.p.dtype(), [&]<class R>() {
    find_preferred<R>(context, io);
    fill_experts(io.capacity, io.routed);
    io.balance.fill(balance_of<R>(io.routed, io.p));
    R* gates = io.gates.data<R>();
    std::fill_n(gates, io.gates.numel(), R(0));
    for_taken(io.routed, [&](std::int64_t k, std::int64_t at) { gates[k] = io.p.data<R>()[at]; });
  });
}

template <>
void kernels::route_backward<Device::cpu>(const Context& context, const RouteVjp& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const std::int64_t experts = io.p.dim(1);
  visit_wide(io.p.dtype(), [&]<class R>() {
    R* to = io.d.data<R>();
    if (io.d_balance.defined()) {
      const double counted = *io.routed.counted.data<double>();
      const double each = cpu::scalar(io.d_balance) * static_cast<double>(experts) / std::max(1.0, counted);
      const double fair = 1.0 / static_cast<double>(experts);  // a constant that softmax does not see, lest it cancel
      for (std::int64_t i = 0; i < io.d.numel(); ++i)
        to[i] = static_cast<R>(each * (io.routed.share.data<double>()[i % experts] - fair));
    }
    if (io.d_gates.defined())
      for_taken(io.routed, [&](std::int64_t k, std::int64_t at) { to[at] += io.d_gates.data<R>()[k]; });
    vjp_softmax<R>(io.p, io.d, io.routed);
  });
}

}  // namespace fovea

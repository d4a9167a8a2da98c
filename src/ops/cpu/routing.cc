#include <algorithm>

#include "ops/cpu/scalar.h"
#include "ops/experts_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

using kernels::Routed;

// The preferred expert of every row that is no padding.
template <class R>
std::vector<std::int32_t> preferred(const Context& context, const Tensor& p, std::span<const Span> spans) {
  const std::int64_t experts = p.dim(1);
  std::vector<std::int32_t> out(spans.size(), -1);
  for_rows(context, p.dim(0), experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Span span = spans[static_cast<std::size_t>(row)];
      if (span.begin == span.end) continue;
      const R* at = p.data<R>() + row * experts;
      out[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(std::max_element(at, at + experts) - at);
    }
  });
  return out;
}

// Who is taken by whom: rows in order, until an expert is full.
void fill_experts(std::int64_t capacity, Routed& routed) {
  const std::size_t experts = routed.share.size();
  std::vector<std::vector<std::int32_t>> rows(experts);
  for (std::size_t row = 0; row < routed.expert.size(); ++row) {
    if (routed.expert[row] < 0) continue;
    const auto e = static_cast<std::size_t>(routed.expert[row]);
    routed.tokens += 1.0;
    routed.share[e] += 1.0;
    if (std::ssize(rows[e]) < capacity)
      rows[e].push_back(static_cast<std::int32_t>(row));
    else
      ++routed.dropped;
  }
  for (double& share : routed.share) share /= std::max(1.0, routed.tokens);
  routed.begin.push_back(0);
  for (const auto& taken : rows) {
    routed.kept.insert(routed.kept.end(), taken.begin(), taken.end());
    routed.begin.push_back(std::ssize(routed.kept));
  }
}

// experts * sum over e of share_e (mean of p_e).
template <class R>
double balance_of(const Routed& routed, const Tensor& p) {
  const auto experts = static_cast<std::size_t>(p.dim(1));
  double sum = 0.0;
  for (std::size_t row = 0; row < routed.expert.size(); ++row)
    if (routed.expert[row] >= 0)
      for (std::size_t e = 0; e < experts; ++e)
        sum += routed.share[e] * static_cast<double>(p.data<R>()[row * experts + e]);
  return static_cast<double>(experts) * sum / std::max(1.0, routed.tokens);
}

// Turns d (rows, experts), the gradient of the probabilities, into that of the logits: p (d - sum of p d).
template <class R>
void pull_softmax(const Tensor& p, const Tensor& d, const Routed& routed) {
  const std::int64_t experts = p.dim(1);
  for (std::int64_t row = 0; row < p.dim(0); ++row) {
    R* to = d.data<R>() + row * experts;
    if (routed.expert[static_cast<std::size_t>(row)] < 0) {
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
Routed kernels::route<Device::cpu>(const Context& context, const RouteRows& io) {
  Routed routed;
  routed.share.assign(static_cast<std::size_t>(io.p.dim(1)), 0.0);
  visit_wide(io.p.dtype(), [&]<class R>() { routed.expert = preferred<R>(context, io.p, io.spans); });
  fill_experts(io.capacity, routed);
  return routed;
}

template <>
void kernels::route_gates<Device::cpu>(const Context&, const RouteGates& io) {
  const Routed& routed = *io.routed;
  visit_wide(io.p.dtype(), [&]<class R>() {
    io.balance.fill(balance_of<R>(routed, io.p));
    for (std::size_t k = 0; k < routed.kept.size(); ++k) {
      const std::int64_t row = routed.kept[k];
      io.gates.data<R>()[k] = io.p.data<R>()[row * io.p.dim(1) + routed.expert[static_cast<std::size_t>(row)]];
    }
  });
}

template <>
void kernels::route_backward<Device::cpu>(const Context& context, const RoutePull& io) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const Routed& routed = *io.routed;
  const auto experts = static_cast<std::size_t>(io.p.dim(1));
  visit_wide(io.p.dtype(), [&]<class R>() {
    R* to = io.d.data<R>();
    if (io.d_balance.defined()) {
      const double each = cpu::scalar(io.d_balance) * static_cast<double>(experts) / std::max(1.0, routed.tokens);
      const double fair = 1.0 / static_cast<double>(experts);  // a constant that softmax does not see, lest it cancel
      for (std::size_t i = 0; i < routed.expert.size() * experts; ++i)
        to[i] = static_cast<R>(each * (routed.share[i % experts] - fair));
    }
    if (io.d_gates.defined()) {
      for (std::size_t k = 0; k < routed.kept.size(); ++k) {
        const auto row = static_cast<std::size_t>(routed.kept[k]);
        to[row * experts + static_cast<std::size_t>(routed.expert[row])] += io.d_gates.data<R>()[k];
      }
    }
    pull_softmax<R>(io.p, io.d, routed);
  });
}

}  // namespace fovea

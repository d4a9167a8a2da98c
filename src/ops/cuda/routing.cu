#include "core/wide.h"
#include "ops/experts_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT
using kernels::Routed;

// The tensors of a routing.
struct RoutedView {
  explicit RoutedView(const Routed& routed)
      : expert(pointer<std::int32_t>(routed.expert)),
        tokens(pointer<std::int32_t>(routed.tokens)),
        begin(pointer<std::int32_t>(routed.begin)),
        dropped(pointer<std::int32_t>(routed.dropped)),
        share(pointer<double>(routed.share)),
        counted(pointer<double>(routed.counted)),
        experts(routed.share.numel()) {}

  __device__ double divisor() const { return *counted > 1.0 ? *counted : 1.0; }

  std::int32_t *expert, *tokens, *begin, *dropped;
  double *share, *counted;
  std::int64_t experts;
};

// The preferred expert of every row that is no padding, the first of equals.
template <class R>
void find_preferred(const Context& context, const kernels::RouteRows& io) {
  const auto spans = upload(context, io.spans);
  const Span* const span = spans.data();
  const R* const p = pointer<R>(io.p);
  const RoutedView routed(io.routed);
  each(context, io.p.dim(0), [=] __device__(std::int64_t row) {
    const R* at = p + row * routed.experts;
    std::int32_t best = 0;
    for (std::int64_t e = 1; e < routed.experts; ++e)
      if (at[best] < at[e]) best = static_cast<std::int32_t>(e);
    routed.expert[row] = span[row].begin == span[row].end ? -1 : best;
  });
}

// Who is taken by whom: rows in order, until an expert is full.
template <class R>
void fill_experts(const Context& context, const kernels::RouteRows& io) {
  const RoutedView routed(io.routed);
  const Groups groups = groups_of(context, io.routed.expert, routed.experts);
  const std::int32_t *const wanted = pointer<std::int32_t>(groups.begin),
                            *const order = pointer<std::int32_t>(groups.order),
                            *const target = pointer<std::int32_t>(groups.target);
  const R* const p = pointer<R>(io.p);
  R* const gates = pointer<R>(io.gates);
  const std::int64_t capacity = io.capacity;
  each(context, 1, [=] __device__(std::int64_t) {
    const std::int32_t all = wanted[routed.experts];
    *routed.counted = all;
    routed.begin[0] = 0;
    for (std::int64_t e = 0; e < routed.experts; ++e) {
      const std::int32_t own = wanted[e + 1] - wanted[e];
      routed.share[e] = own / routed.divisor();
      routed.begin[e + 1] = routed.begin[e] + static_cast<std::int32_t>(own < capacity ? own : capacity);
    }
    *routed.dropped = all - routed.begin[routed.experts];
  });
  io.routed.tokens.fill(-1.0);
  io.gates.fill(0.0);
  each(context, groups.count, [=] __device__(std::int64_t place) {
    const std::int64_t e = target[place], row = order[place];
    if (e >= routed.experts || place - wanted[e] >= capacity) return;
    const std::int64_t k = routed.begin[e] + place - wanted[e];
    routed.tokens[k] = static_cast<std::int32_t>(row);
    gates[k] = p[row * routed.experts + e];
  });
}

// experts * sum over e of share_e (mean of p_e).
template <class R>
void balance(const Context& context, const kernels::RouteRows& io) {
  const RoutedView routed(io.routed);
  const R* const p = pointer<R>(io.p);
  R* const to = pointer<R>(io.balance);
  device::total(
      context, io.p.numel(),
      [=] __device__(std::int64_t i) -> double {
        if (routed.expert[i / routed.experts] < 0) return 0.0;
        return routed.share[i % routed.experts] * static_cast<double>(p[i]);
      },
      [=] __device__(double sum) {
        *to = static_cast<R>(static_cast<double>(routed.experts) * sum / routed.divisor());
      });
}

// The gradient of the logits from d, that of the probabilities: p (d - sum of p d).
template <class R>
void vjp_softmax(const Context& context, const kernels::RouteVjp& io) {
  const RoutedView routed(io.routed);
  const R* const p = pointer<R>(io.p);
  R* const d = pointer<R>(io.d);
  const std::int64_t experts = routed.experts;
  rows(context, io.p.dim(0), experts, [=] __device__(const auto& g) {
    const std::int64_t first = g.row * experts;
    R mean = 0;
    for (std::int64_t e = g.lane; e < experts; e += g.lanes) mean += p[first + e] * d[first + e];
    mean = g.sum(mean);
    const bool is_padding = routed.expert[g.row] < 0;
    for (std::int64_t e = g.lane; e < experts; e += g.lanes)
      d[first + e] = is_padding ? R(0) : p[first + e] * (d[first + e] - mean);
  });
}

template <class R>
void vjp(const Context& context, const kernels::RouteVjp& io) {
  const RoutedView routed(io.routed);
  R* const d = pointer<R>(io.d);
  if (io.d_balance.defined()) {
    const Elements<double> given = elements<double>(io.d_balance);
    each(context, io.d.numel(), [=] __device__(std::int64_t i) {
      const auto experts = static_cast<double>(routed.experts);
      const double fair = 1.0 / experts;  // a constant that softmax does not see, lest it cancel
      d[i] = static_cast<R>(given[0] * experts / routed.divisor() * (routed.share[i % routed.experts] - fair));
    });
  }
  if (io.d_gates.defined()) {
    const R* const given = pointer<R>(io.d_gates);
    each(context, io.p.dim(0), [=] __device__(std::int64_t k) {
      const std::int64_t row = routed.tokens[k];
      if (row >= 0) d[row * routed.experts + routed.expert[row]] += given[k];
    });
  }
  vjp_softmax<R>(context, io);
}

}  // namespace

template <>
void kernels::route<Device::cuda>(const Context& context, const RouteRows& io) {
  visit_wide(io.p.dtype(), [&]<class R>() {
    find_preferred<R>(context, io);
    fill_experts<R>(context, io);
    balance<R>(context, io);
  });
}

template <>
void kernels::route_backward<Device::cuda>(const Context& context, const RouteVjp& io) {
  visit_wide(io.p.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

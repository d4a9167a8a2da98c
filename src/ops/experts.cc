#include <cmath>

#include "fovea/ops.h"
#include "ops/experts_cpu.h"
#include "ops/softmax_cpu.h"
#include "ops/spans.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Routed {
  std::vector<std::int32_t> expert;  // of each row; -1 for padding
  std::vector<std::int32_t> kept;    // rows, in the order of the gates
  std::vector<double> share;         // of the tokens that prefer each expert
  double tokens;                     // number of them
};

// The preferred expert of every row that is no padding.
template <class R>
std::vector<std::int32_t> preferred(const Context& context, const Tensor& p, const std::vector<Span>& spans) {
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
void fill_experts(const Route& route, Routed& routed, Routing& routing) {
  const std::size_t experts = routed.share.size();
  std::vector<std::vector<std::int32_t>> rows(experts);
  for (std::size_t row = 0; row < routed.expert.size(); ++row) {
    if (routed.expert[row] < 0) continue;
    const auto e = static_cast<std::size_t>(routed.expert[row]);
    routed.tokens += 1.0;
    routed.share[e] += 1.0;
    if (std::ssize(rows[e]) < route.capacity)
      rows[e].push_back(static_cast<std::int32_t>(row));
    else
      ++routing.dropped;
  }
  for (double& share : routed.share) share /= std::max(1.0, routed.tokens);
  routing.begin.push_back(0);
  for (const auto& taken : rows) {
    routed.kept.insert(routed.kept.end(), taken.begin(), taken.end());
    routing.begin.push_back(std::ssize(routed.kept));
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

// saved: the probabilities (rows, experts). Outputs: gates, balance.
void route_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const auto& routed = std::any_cast<const Routed&>(node.attributes);
  const Tensor& p = node.saved[0];
  const Tensor d = Tensor::zeros(context, p.shape(), p.dtype());
  const auto experts = static_cast<std::size_t>(p.dim(1));
  visit_wide(p.dtype(), [&]<class R>() {
    R* to = d.data<R>();
    if (node.grad(1).defined()) {
      const double each = node.grad(1).item() * static_cast<double>(experts) / std::max(1.0, routed.tokens);
      const double fair = 1.0 / static_cast<double>(experts);  // a constant that softmax does not see, lest it cancel
      for (std::size_t i = 0; i < routed.expert.size() * experts; ++i)
        to[i] = static_cast<R>(each * (routed.share[i % experts] - fair));
    }
    if (node.grad(0).defined()) {
      const Tensor g = node.grad(0).contiguous(context);
      for (std::size_t k = 0; k < routed.kept.size(); ++k) {
        const auto row = static_cast<std::size_t>(routed.kept[k]);
        to[row * experts + static_cast<std::size_t>(routed.expert[row])] += g.data<R>()[k];
      }
    }
    pull_softmax<R>(p, d, routed);
  });
  tape.accumulate(node.inputs[0], d.reshape(node.inputs[0]->shape));
}

constexpr Op kRoute{"route_top1", route_backward};

// saved: values, index and scale.
void scatter_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &values = node.saved[0], &index = node.saved[1], &scale = node.saved[2];
  const Tensor d_values = node.wants(0) ? Tensor::empty(context, values.shape(), values.dtype()) : Tensor();
  const Tensor d_scale = node.wants(1) ? Tensor::empty(context, scale.shape(), scale.dtype()) : Tensor();
  cpu::scatter_rows_backward(context, {node.grad().contiguous(context), values, index, scale, d_values, d_scale});
  if (node.wants(0)) tape.accumulate(node.inputs[0], d_values);
  if (node.wants(1)) tape.accumulate(node.inputs[1], d_scale);
}

constexpr Op kScatterRows{"scatter_rows", scatter_backward};

Tensor jittered(const Context& context, const cpu::Jitter& noise, const Tensor& x) {
  const Tensor in = x.contiguous(context), y = Tensor::empty(context, x.shape(), x.dtype());
  cpu::jitter(context, noise, in, y);
  return y;
}

void jitter_backward(Tape& tape, Node& node) {
  const auto& noise = std::any_cast<const cpu::Jitter&>(node.attributes);
  tape.accumulate(node.inputs[0], jittered(tape.context(), noise, node.grad()));
}

constexpr Op kJitter{"jitter", jitter_backward};

void check_route(const Var& logits, const Route& route) {
  const int rank = logits.value().rank();
  if ((rank != 2 && rank != 3) || logits.dim(-1) == 0)
    fail(ErrorCode::shape, "router logits of shape " + logits.shape().text(), "logits",
         "(b, n, experts) or (tokens, experts)");
  if (route.capacity < 1)
    fail(ErrorCode::usage, "experts that take " + std::to_string(route.capacity) + " tokens", "capacity",
         "at least 1; see expert_capacity()");
}

void check_scatter(const Var& values, const Tensor& index, std::int64_t count, const Var& scale) {
  const Shape rows{values.value().rank() == 2 ? values.dim(0) : -1};
  if (values.value().rank() != 2 || index.shape() != rows || (scale.defined() && scale.shape() != rows))
    fail(ErrorCode::shape,
         "rows " + values.shape().text() + " to scatter by an index of shape " + index.shape().text() +
             (scale.defined() ? " and a scale of shape " + scale.shape().text() : ""),
         {}, "(m, d), (m) and (m)");
  std::vector<bool> taken(static_cast<std::size_t>(std::max<std::int64_t>(0, count)), false);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const std::int32_t row = index.data<std::int32_t>()[i];
    const std::string where = "index[" + std::to_string(i) + "]";
    if (row < 0 || row >= count)
      fail(ErrorCode::bad_input, "row " + std::to_string(row) + " of " + std::to_string(count), where);
    if (taken[static_cast<std::size_t>(row)])
      fail(ErrorCode::bad_input, "row " + std::to_string(row) + " is put twice", where);
    taken[static_cast<std::size_t>(row)] = true;
  }
}

}  // namespace

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t experts, double factor) {
  if (experts < 1 || tokens < 0 || !(factor > 0.0 && factor <= 1e6))
    fail(ErrorCode::usage, "no capacity for " + std::to_string(tokens) + " tokens and " + std::to_string(experts) +
                               " experts with a factor of " + std::to_string(factor));
  const double each = static_cast<double>(tokens) / static_cast<double>(experts);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(each * factor)));
}

Routing route_top1(Tape& tape, const Var& logits, const Route& route) {
  check_route(logits, route);
  const Context& context = tape.context();
  const bool flat = logits.value().rank() == 2;
  const std::int64_t b = flat ? 1 : logits.dim(0), n = flat ? logits.dim(0) : logits.dim(1), experts = logits.dim(-1);
  const std::vector<Span> spans = spans_of(route.rows, b, n);
  const Tensor x = logits.value().to(context, wide_type(logits.dtype())).contiguous(context).reshape({b * n, experts});
  const Tensor p = Tensor::empty(context, x.shape(), x.dtype());
  cpu::softmax(context, {false, x, p});
  Routing routing;
  Routed routed{{}, {}, std::vector<double>(static_cast<std::size_t>(experts), 0.0), 0.0};
  const Tensor balance = Tensor::empty(context, {}, p.dtype());
  Tensor gates;
  visit_wide(p.dtype(), [&]<class R>() {
    routed.expert = preferred<R>(context, p, spans);
    fill_experts(route, routed, routing);
    balance.fill(balance_of<R>(routed, p));
    gates = Tensor::empty(context, {std::ssize(routed.kept)}, p.dtype());
    for (std::size_t k = 0; k < routed.kept.size(); ++k) {
      const std::int64_t row = routed.kept[k];
      gates.data<R>()[k] = p.data<R>()[row * experts + routed.expert[static_cast<std::size_t>(row)]];
    }
  });
  routing.tokens = Tensor::from<std::int32_t>(context, {std::ssize(routed.kept)}, routed.kept);
  const std::vector<Var> outputs = tape.record(kRoute, std::span(&logits, 1), {gates, balance}, {p}, std::move(routed));
  routing.gates = outputs[0];
  routing.balance = outputs[1];
  return routing;
}

Var scatter_rows(Tape& tape, const Var& values, const Tensor& index, std::int64_t count, const Var& scale) {
  const Context& context = tape.context();
  const Tensor rows = index.contiguous(context);
  check_scatter(values, rows, count, scale);
  const Tensor in = values.value().contiguous(context);
  const Tensor factors =
      scale.defined() ? scale.value().to(context, wide_type(in.dtype())).contiguous(context) : Tensor();
  const Tensor y = Tensor::zeros(context, {count, in.dim(1)}, in.dtype());
  cpu::scatter_rows(context, {in, rows, factors, y});
  return tape.record(kScatterRows, {values, scale}, y, {in, rows, factors});
}

Var jitter(Tape& tape, const Var& x, double amount) {
  if (!(amount >= 0.0 && amount < 1.0))
    fail(ErrorCode::usage, "jitter of " + std::to_string(amount) + " is outside [0, 1)", "jitter");
  if (!tape.training() || amount == 0.0) return x;
  const cpu::Jitter noise{amount, tape.context().seed(), tape.next_stream()};
  return tape.record(kJitter, {x}, jittered(tape.context(), noise, x.value()), {}, noise);
}

}  // namespace fovea

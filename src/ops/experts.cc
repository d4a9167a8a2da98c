#include <cmath>

#include "core/stream_shift.h"
#include "fovea/ops.h"
#include "ops/experts_kernels.h"
#include "ops/index.h"
#include "ops/sequence.h"
#include "ops/softmax_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// saved: the probabilities (rows, experts). Outputs: gates, balance.
void route_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& p = node.saved[0];
  const kernels::RoutePull io{std::any_cast<const kernels::Routed&>(node.attributes), p,
                              node.grad(0).defined() ? node.grad(0).contiguous(context) : Tensor(), node.grad(1),
                              Tensor::zeros(context, p.shape(), p.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::route_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.d.reshape(node.inputs[0]->shape));
}

constexpr Op kRoute{"route_top1", route_backward};

// saved: values, index and scale.
void scatter_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &values = node.saved[0], &index = node.saved[1], &scale = node.saved[2];
  const Tensor d_values = node.wants(0) ? Tensor::empty(context, values.shape(), values.dtype()) : Tensor();
  const Tensor d_scale = node.wants(1) ? Tensor::empty(context, scale.shape(), scale.dtype()) : Tensor();
  const kernels::ScatterPull io{node.grad().contiguous(context), values, index, scale, d_values, d_scale};
  visit_device(context, io, [&]<Device D>() { kernels::scatter_rows_backward<D>(context, io); });
  if (node.wants(0)) tape.accumulate(node.inputs[0], d_values);
  if (node.wants(1)) tape.accumulate(node.inputs[1], d_scale);
}

constexpr Op kScatterRows{"scatter_rows", scatter_backward};

Tensor jittered(const Context& context, const kernels::Jitter& noise, const Tensor& x) {
  const kernels::JitterTensors io{noise, x.contiguous(context), Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::jitter<D>(context, io); });
  return io.y;
}

void jitter_backward(Tape& tape, Node& node) {
  const auto& noise = std::any_cast<const kernels::Jitter&>(node.attributes);
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

// The index, dense.
Tensor check_scatter(const Context& context, const Var& values, const Index& index, std::int64_t count,
                     const Var& scale) {
  const Tensor& entries = index.entries;
  const Shape rows{values.value().rank() == 2 ? values.dim(0) : -1};
  if (values.value().rank() != 2 || entries.shape() != rows || (scale.defined() && scale.shape() != rows))
    fail(ErrorCode::shape,
         "rows " + values.shape().text() + " to scatter by an index of shape " + entries.shape().text() +
             (scale.defined() ? " and a scale of shape " + scale.shape().text() : ""),
         {}, "(m, d), (m) and (m)");
  const bool known = index.within(-1, count);
  if (const std::int64_t at = known ? -1 : first_outside(context, index, 0, count); at >= 0) {
    const auto [row, where] = wrong_entry(dense_entries(context, entries), at, "index");
    fail(ErrorCode::bad_input, "row " + std::to_string(row) + " of " + std::to_string(count), where);
  }
  if (!index.once) check_once(context, dense_entries(context, entries).reshape({1, entries.numel(), 1}), count);
  return taken_along(context, entries);
}

// Room for where (rows) go.
kernels::Routed new_routed(const Context& context, std::int64_t rows, std::int64_t experts) {
  const auto room = [&](const Shape& shape, DType dtype) { return Tensor::empty(context, shape, dtype); };
  return {room({rows}, DType::i32),    room({rows}, DType::i32), room({experts + 1}, DType::i32),
          room({experts}, DType::f64), room({}, DType::f64),     room({}, DType::i32)};
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
  const kernels::Softmax weights{false, x, p};
  visit_device(context, weights, [&]<Device D>() { kernels::softmax<D>(context, weights); });
  const kernels::RouteRows io{p,
                              spans,
                              route.capacity,
                              new_routed(context, b * n, experts),
                              Tensor::empty(context, {b * n}, p.dtype()),
                              Tensor::empty(context, {}, p.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::route<D>(context, io); });
  const std::vector<Var> outputs = tape.record(kRoute, std::span(&logits, 1), {io.gates, io.balance}, {p}, io.routed);
  return {.tokens = {io.routed.tokens, -1, b * n, true},
          .begin = io.routed.begin,
          .gates = outputs[0],
          .balance = outputs[1],
          .dropped = io.routed.dropped};
}

Var to_experts(Tape& tape, const Var& x, const Routing& routing) {
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  Index picks = routing.tokens;
  picks.entries = picks.entries.reshape({1, routing.tokens.entries.dim(0), 1});
  return reshape(tape, take_rows(tape, reshape(tape, x, {1, rows, 1, width}), picks), {-1, width});
}

Var scatter_rows(Tape& tape, const Var& values, const Index& index, std::int64_t count, const Var& scale) {
  const Context& context = tape.context();
  const Tensor rows = check_scatter(context, values, index, count, scale);
  const Tensor in = values.value().contiguous(context);
  const Tensor factors =
      scale.defined() ? scale.value().to(context, wide_type(in.dtype())).contiguous(context) : Tensor();
  const Tensor y = Tensor::zeros(context, {count, in.dim(1)}, in.dtype());
  const kernels::Scatter io{in, rows, factors, y};
  visit_device(context, io, [&]<Device D>() { kernels::scatter_rows<D>(context, io); });
  return tape.record(kScatterRows, {values, scale}, y, {in, rows, factors});
}

Var jitter(Tape& tape, const Var& x, double amount) {
  if (!(amount >= 0.0 && amount < 1.0))
    fail(ErrorCode::usage, "jitter of " + std::to_string(amount) + " is outside [0, 1)", "jitter");
  if (!tape.training() || amount == 0.0) return x;
  const kernels::Jitter noise{amount, tape.context().seed(), tape.next_stream(), stream_shift()};
  return tape.record(kJitter, {x}, jittered(tape.context(), noise, x.value()), {}, noise);
}

}  // namespace fovea

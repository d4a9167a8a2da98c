#include "mechanisms/compose.h"

#include "autograd/add_into.h"

namespace fovea {
namespace {

// Where each part of an assembled tensor goes.
using Places = std::vector<Sequences::Rows>;

Tensor rows_of(const Tensor& x, const Sequences::Rows& rows) {
  return x.slice(0, rows.batch, rows.batch + 1).slice(1, rows.begin, rows.begin + rows.count);
}

void assemble_backward(Tape& tape, Node& node) {
  const auto& places = std::any_cast<const Places&>(node.attributes);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (node.wants(i)) tape.accumulate(node.inputs[i], rows_of(node.grad(), places[i]));
}

constexpr Op kAssemble{"assemble_sequences", assemble_backward};

// (b, n, ...) with the parts, each (1, count, ...), at their places and zero elsewhere.
Var assemble(Tape& tape, const Shape& shape, const std::vector<Var>& parts, Places places, DType dtype) {
  const Tensor whole = Tensor::zeros(tape.context(), shape, dtype);
  for (std::size_t i = 0; i < parts.size(); ++i) rows_of(whole, places[i]).copy_from(parts[i].value());
  return tape.record(kAssemble, parts, {whole}, {}, std::move(places)).front();
}

void nothing_backward(Tape& tape, Node& node) {
  for (const auto& slot : node.inputs)
    if (slot != nullptr) tape.accumulate(slot, Tensor::zeros(tape.context(), slot->shape, slot->dtype));
}

constexpr Op kNothing{"no_sequence", nothing_backward};

// What a call without a single pair of rows gives: zeros, that have gradients of zero.
Var nothing(const Call& call, const Shape& shape) {
  std::vector<Var> inputs{call.q, call.k, call.v};
  if (call.options.input.defined()) inputs.push_back(call.options.input);
  inputs.insert(inputs.end(), call.options.weights.begin(), call.options.weights.end());
  return call.tape.record(kNothing, inputs, {Tensor::zeros(call.tape.context(), shape, call.q.dtype())}, {}, {})
      .front();
}

Var sequence_of(Tape& tape, const Var& x, const Sequences::Rows& rows) {
  if (!x.defined()) return x;
  const Var item = slice(tape, x, 0, rows.batch, rows.batch + 1);
  return slice(tape, item, 1, rows.begin, rows.begin + rows.count);
}

bool is_whole(const Call& call) {
  const auto covers = [](const std::vector<Sequences::Rows>& rows, const Var& x) {
    for (const Sequences::Rows& r : rows)
      if (r.begin != 0 || r.count != x.dim(1)) return false;
    return static_cast<std::int64_t>(rows.size()) == x.dim(0);
  };
  return covers(call.queries, call.q) && covers(call.keys, call.k);
}

std::vector<Sequences::Rows> whole(const Var& x) { return Sequences{}.rows(x.dim(0), x.dim(1), "rows"); }

void repeat_backward(Tape& tape, Node& node) {
  const auto group = std::any_cast<std::int64_t>(node.attributes);
  const Tensor& g = node.grad();  // (b, n, heads, d)
  const Tape::Target to = tape.target(node.inputs[0]);
  for (std::int64_t h = 0; h < g.dim(2); ++h) {
    const Tensor part = to.grad.slice(2, h / group, h / group + 1), more = g.slice(2, h, h + 1);
    if (to.fresh && h % group == 0)
      part.copy_from(more);
    else
      add_into(tape.context(), part, more);
  }
}

constexpr Op kRepeat{"repeat_heads", repeat_backward};

}  // namespace

Var each_sequence(const Call& call, const std::function<Var(const Call&)>& body) {
  Tape& tape = call.tape;
  AttentionOptions options = call.options;
  options.queries = options.keys = {};
  if (is_whole(call) && call.q.dim(0) > 0 && call.q.dim(1) > 0 && call.k.dim(1) > 0)
    return body({tape, call.q, call.k, call.v, call.mechanism, options, whole(call.q), whole(call.k)});
  std::vector<Var> parts;
  Places places;
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    if (call.queries[s].count == 0 || call.keys[s].count == 0) continue;
    const Var q = sequence_of(tape, call.q, call.queries[s]), k = sequence_of(tape, call.k, call.keys[s]),
              v = sequence_of(tape, call.v, call.keys[s]);
    options.input = sequence_of(tape, call.options.input, call.keys[s]);
    if (call.options.positions.defined()) options.positions = rows_of(call.options.positions, call.keys[s]);
    parts.push_back(body({tape, q, k, v, call.mechanism, options, whole(q), whole(k)}));
    places.push_back(call.queries[s]);
  }
  const Shape shape{call.q.dim(0), call.q.dim(1), call.q.dim(2), call.v.dim(3)};
  if (parts.empty()) return nothing(call, shape);
  return assemble(tape, shape, parts, std::move(places), call.q.dtype());
}

Var each_sequence_wide(const Call& call, const std::function<Var(const Call&)>& body) {
  Tape& tape = call.tape;
  const DType dtype = call.q.dtype(), wide = wide_type(dtype);
  AttentionOptions options = call.options;
  if (options.input.defined()) options.input = cast(tape, options.input, wide);
  const Var out = each_sequence({tape, cast(tape, call.q, wide), cast(tape, call.k, wide), cast(tape, call.v, wide),
                                 call.mechanism, options, call.queries, call.keys},
                                body);
  return cast(tape, out, dtype);
}

AttentionResult run_tiled_on(const Call& call, const Triple& x, const AttentionOptions& options, const Tiled& tiled) {
  return run_tiled({call.tape, x.q, x.k, x.v, call.mechanism, options, whole(x.q), whole(x.k)}, tiled);
}

AttentionResult with_zero_keys(const Call& call, const AttentionResult& kept, const Tensor& lse) {
  const Tensor zeros = Tensor::zeros(call.tape.context(), kept.output.shape(), kept.output.dtype());
  const Partial all = merge(call.tape, {kept.output, kept.lse}, {Var(zeros), Var(lse)});
  return {all.output, call.options.return_lse ? all.lse : Var(), {}};
}

Var by_head(Tape& tape, const Var& x) { return transpose(tape, x, 1, 2); }
Var by_token(Tape& tape, const Var& x) { return transpose(tape, x, 1, 2); }

Var multiply_heads(Tape& tape, const Var& x, const Var& w) {
  const std::int64_t b = x.dim(0), n = x.dim(1), heads = x.dim(2);
  const Var rows = reshape(tape, transpose(tape, x, 0, 2), {heads, n * b, x.dim(3)});
  return transpose(tape, reshape(tape, matmul(tape, rows, w), {heads, n, b, w.dim(2)}), 0, 2);
}

Var repeat_heads(Tape& tape, const Var& x, std::int64_t heads) {
  const std::int64_t group = heads / x.dim(2);
  if (group == 1) return x;
  const Tensor out = Tensor::empty(tape.context(), x.shape().with(2, heads), x.dtype());
  for (std::int64_t h = 0; h < heads; ++h)
    out.slice(2, h, h + 1).copy_from(x.value().slice(2, h / group, h / group + 1));
  return tape.record(kRepeat, {x}, out, {}, group);
}

Call with_repeated_heads(const Call& call) {
  const std::int64_t heads = call.q.dim(2);
  return {call.tape,
          call.q,
          repeat_heads(call.tape, call.k, heads),
          repeat_heads(call.tape, call.v, heads),
          call.mechanism,
          call.options,
          call.queries,
          call.keys};
}

const Sequences& key_sequences(const Call& call) {
  return call.options.keys.empty() && call.q.dim(1) == call.k.dim(1) ? call.options.queries : call.options.keys;
}

ParameterSpec batch_start() {
  return {.name = "batch_start",
          .fallback = false,
          .help = "the iteration starts from the largest column sum of all items and heads, as published code does",
          .lawless = true};
}

}  // namespace fovea

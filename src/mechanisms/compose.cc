#include "mechanisms/compose.h"

#include <map>

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

// The sequences of a value share its gradient: each adds its rows alone, so that all of them cost as much as one pass.
void sequence_backward(Tape& tape, Node& node) {
  const Tape::Target target = tape.target(node.inputs[0]);
  if (target.fresh) target.grad.fill(0.0);
  const Tensor part = rows_of(target.grad, std::any_cast<const Sequences::Rows&>(node.attributes));
  if (target.fresh)
    part.copy_from(node.grad());
  else
    add_into(tape.context(), part, node.grad());
}

constexpr Op kSequence{"sequence", sequence_backward};

Var sequence_of(Tape& tape, const Var& x, const Sequences::Rows& rows) {
  return x.defined() ? tape.record(kSequence, {x}, rows_of(x.value(), rows), {}, rows) : x;
}

bool is_whole(const Call& call) {
  const auto fill_items = [](const std::vector<Sequences::Rows>& rows, const Var& x) {
    for (const Sequences::Rows& r : rows)
      if (r.begin != 0 || r.count != x.dim(1)) return false;
    return static_cast<std::int64_t>(rows.size()) == x.dim(0);
  };
  return fill_items(call.queries, call.q) && fill_items(call.keys, call.k);
}

// Some sequences of a call, packed in one item, or as the items of a batch where they have one length.
struct Joined {
  Var q, k, v;
  AttentionOptions options;
};

using Members = std::vector<std::size_t>;

Joined join(const Call& call, const Members& members, int axis) {
  const auto joined = [&](const Var& x, const std::vector<Sequences::Rows>& rows) {
    std::vector<Var> parts;
    for (std::size_t s : members) parts.push_back(sequence_of(call.tape, x, rows[s]));
    return !x.defined() || parts.size() == 1 ? parts.front() : concat(call.tape, parts, axis);
  };
  Joined out{joined(call.q, call.queries), joined(call.k, call.keys), joined(call.v, call.keys), call.options};
  out.options.input = joined(call.options.input, call.keys);
  if (call.options.positions.defined()) out.options.positions = joined(call.options.positions, call.keys).value();
  return out;
}

Joined pack(const Call& call, const Members& members) {
  const auto ends = [&](const std::vector<Sequences::Rows>& rows) {
    Sequences packed{{}, {0}};
    for (std::size_t s : members)
      packed.cu_seqlens.push_back(packed.cu_seqlens.back() + static_cast<std::int32_t>(rows[s].count));
    return packed;
  };
  Joined packed = join(call, members, 1);
  packed.options.align = Align::bottom_right;
  packed.options.queries = ends(call.queries);
  packed.options.keys = ends(call.keys);
  return packed;
}

// The sequences of each kind that have rows, in order.
std::vector<Members> groups_of(const Call& call, const SequenceKind& kind) {
  std::map<std::int64_t, Members> groups;
  for (std::size_t s = 0; s < call.queries.size(); ++s)
    if (const std::int64_t n_q = call.queries[s].count, n_k = call.keys[s].count; n_q > 0 && n_k > 0)
      groups[kind ? kind(n_q, n_k) : 0].push_back(s);
  std::vector<Members> lists;
  for (auto& [_, members] : groups) lists.push_back(std::move(members));
  return lists;
}

// Those of one length each, in the order of their first.
std::vector<Members> groups_of_equal(const Call& call) {
  std::vector<Members> groups;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> group_of;
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const std::pair lengths{call.queries[s].count, call.keys[s].count};
    if (lengths.first == 0 || lengths.second == 0) continue;
    const auto [found, fresh] = group_of.try_emplace(lengths, groups.size());
    if (fresh) groups.emplace_back();
    groups[found->second].push_back(s);
  }
  return groups;
}

// Whether the call is as `pack` would make it: sequences to the last row.
bool is_packed(const Call& call) {
  const auto ends_at = [](const Sequences& sequences, std::int64_t n) {
    return !sequences.cu_seqlens.empty() && sequences.cu_seqlens.back() == n;
  };
  return ends_at(call.options.queries, call.q.dim(1)) && ends_at(key_sequences(call), call.k.dim(1)) &&
         call.options.align == Align::bottom_right;
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
  const auto run = [&](const Var& q, const Var& k, const Var& v, AttentionOptions options) {
    options.queries = options.keys = {};
    return body({tape, q, k, v, call.mechanism, options, whole(q), whole(k)});
  };
  if (is_whole(call) && call.q.dim(0) > 0 && call.q.dim(1) > 0 && call.k.dim(1) > 0)
    return run(call.q, call.k, call.v, call.options);
  std::vector<Var> parts;
  Places places;
  for (const Members& members : groups_of_equal(call)) {
    const Joined batch = join(call, members, 0);
    const Var o = run(batch.q, batch.k, batch.v, batch.options);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto item = static_cast<std::int64_t>(i);
      parts.push_back(members.size() == 1 ? o : sequence_of(tape, o, {item, 0, o.dim(1)}));
      places.push_back(call.queries[members[i]]);
    }
  }
  const Shape shape{call.q.dim(0), call.q.dim(1), call.q.dim(2), call.v.dim(3)};
  if (parts.empty()) return nothing(call, shape);
  return assemble(tape, shape, parts, std::move(places), call.q.dtype());
}

Var all_sequences(const Call& call, const std::function<Var(const Call&)>& body, const SequenceKind& kind) {
  Tape& tape = call.tape;
  const Shape shape{call.q.dim(0), call.q.dim(1), call.q.dim(2), call.v.dim(3)};
  const auto groups = groups_of(call, kind);
  if (groups.empty()) return nothing(call, shape);
  const bool together = groups.size() == 1 && groups[0].size() == call.queries.size(), aligned = is_whole(call);
  if (together && (aligned || is_packed(call))) {
    AttentionOptions options = call.options;
    options.queries = aligned ? Sequences{} : call.options.queries;
    options.keys = aligned ? Sequences{} : key_sequences(call);
    return body({tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys});
  }
  std::vector<Var> parts;
  Places places;
  for (const Members& members : groups) {
    const Joined packed = pack(call, members);
    const auto queries = packed.options.queries.rows(1, packed.q.dim(1), "queries");
    const Var o = body({tape, packed.q, packed.k, packed.v, call.mechanism, packed.options, queries,
                        packed.options.keys.rows(1, packed.k.dim(1), "keys")});
    for (std::size_t i = 0; i < members.size(); ++i) {
      parts.push_back(sequence_of(tape, o, queries[i]));
      places.push_back(call.queries[members[i]]);
    }
  }
  return assemble(tape, shape, parts, std::move(places), call.q.dtype());
}

Var beside(const Call& call, const Var& x) {
  const std::int64_t items = call.q.dim(0);
  if (x.dim(0) == items) return x;
  return reshape(call.tape, x, {items, x.dim(0) / items * x.dim(1), x.dim(2), x.dim(3)});
}

std::vector<Sequences::Rows> rows_beside(const Call& call, std::int64_t m) {
  std::vector<Sequences::Rows> rows;
  const std::int64_t items = call.q.dim(0), sequences = std::ssize(call.queries);
  for (std::int64_t s = 0; s < sequences; ++s)
    rows.push_back(items == sequences ? Sequences::Rows{s, 0, m} : Sequences::Rows{0, s * m, m});
  return rows;
}

Var in_wide_type(const Call& call, const std::function<Var(const Call&)>& body) {
  Tape& tape = call.tape;
  const DType dtype = call.q.dtype(), wide = wide_type(dtype);
  AttentionOptions options = call.options;
  if (options.input.defined()) options.input = cast(tape, options.input, wide);
  const Var out = body({tape, cast(tape, call.q, wide), cast(tape, call.k, wide), cast(tape, call.v, wide),
                        call.mechanism, options, call.queries, call.keys});
  return cast(tape, out, dtype);
}

Var each_sequence_wide(const Call& call, const std::function<Var(const Call&)>& body) {
  return in_wide_type(call, [&](const Call& wide) { return each_sequence(wide, body); });
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

Var normalize_heads(Tape& tape, const Var& x, NormKind kind, double eps) {
  const Var flat = reshape(tape, x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)});
  const Var normed = normalize(tape, flat, {.kind = kind, .eps = eps});
  return reshape(tape, normed, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
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

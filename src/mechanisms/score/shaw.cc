#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/tiled.h"
#include "ops/sequence.h"

// Distances beyond the clip all have one relative key and one relative value, so there attention is plain: its scores
// change by a number for each row, its output by a vector. What lies nearer is a band of 2 clip - 1 diagonals. The
// three parts meet in their log-sum-exp.
namespace fovea {
namespace {

enum Weight : std::size_t { kKeys, kValues };

// What the parts share; the call has whole sequences.
struct Relative {
  const Call& call;
  DType wide;
  double scale;
  std::int64_t clip;
  Var offsets;  // (b, n_q, heads, 2 clip + 1): scale q . relative key

  Tape& tape() const { return call.tape; }
  const Var& values() const { return call.options.weights[kValues]; }
};

Var one_column(const Relative& r, std::int64_t column) {
  const Var& x = r.offsets;
  return reshape(r.tape(), slice(r.tape(), x, 3, column, column + 1), {x.dim(0), x.dim(1), x.dim(2)});
}

// Plain attention in the wide type.
Partial far(const Relative& r, const Var& q, const Var& k, const Var& v, const Pattern& pattern) {
  AttentionOptions options;
  options.scale = r.scale;
  options.pattern = pattern;
  options.return_lse = true;
  const auto whole = [](const Var& x) { return Sequences{}.rows(x.dim(0), x.dim(1), "rows"); };
  const AttentionResult part =
      run_tiled({r.tape(), q, k, v, r.call.mechanism, options, whole(q), whole(k)}, {.pattern = Pattern::full()});
  return {cast(r.tape(), part.output, r.wide), part.lse};
}

// Adds what the relative key and value at `column` bring.
Partial with_offset(const Relative& r, const Partial& part, std::int64_t column) {
  const Var value = reshape(r.tape(), slice(r.tape(), r.values(), 0, column, column + 1), {r.values().dim(1)});
  return {add(r.tape(), part.output, value), add(r.tape(), part.lse, one_column(r, column))};
}

// Keys clip or more before the query: without the last clip keys they are those of a causal row.
Partial before(const Relative& r) {
  const std::int64_t keys = r.call.k.dim(1) - r.clip;
  const auto first = [&](const Var& x) { return slice(r.tape(), x, 1, 0, keys); };
  return with_offset(r, far(r, r.call.q, first(r.call.k), first(r.call.v), Pattern::causal()), 0);
}

// x (b, n, ...) with rows of `value` behind it.
Var with_rows(Tape& tape, const Var& x, std::int64_t count, double value) {
  const Tensor more = Tensor::empty(tape.context(), x.shape().with(1, count), x.dtype());
  more.fill(value);
  const std::vector<Var> parts{x, Var(more)};
  return concat(tape, parts, 1);
}

// Keys clip or more after the query: without the last clip queries, which have none, they start at the query's place.
Partial after(const Relative& r) {
  const std::int64_t queries = r.call.q.dim(1) - r.clip;
  const Partial part = far(r, slice(r.tape(), r.call.q, 1, 0, queries), r.call.k, r.call.v, Pattern::window(0, -1));
  return with_offset(
      r, {with_rows(r.tape(), part.output, r.clip, 0.0), with_rows(r.tape(), part.lse, r.clip, -INFINITY)}, 2 * r.clip);
}

// x (b, n, heads, d) as the last of `rows` rows, the others zero.
Var last_rows(Tape& tape, const Var& x, std::int64_t rows) {
  if (x.dim(1) == rows) return x;
  const std::vector<Var> parts{Var(Tensor::zeros(tape.context(), x.shape().with(1, rows - x.dim(1)), x.dtype())), x};
  return concat(tape, parts, 1);
}

// -inf where a diagonal meets one of the `missing` rows before the first key, else 0: (rows, heads, diagonals).
Var without_keys(const Relative& r, std::int64_t rows, std::int64_t missing, const std::vector<std::int64_t>& along) {
  const Tensor hidden = Tensor::zeros(r.tape().context(), {rows, r.call.q.dim(2), std::ssize(along)}, r.wide);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < std::ssize(along); ++c)
      if (i + along[static_cast<std::size_t>(c)] < missing)
        hidden.slice(0, i, i + 1).slice(2, c, c + 1).fill(-INFINITY);
  return Var(hidden);
}

// Keys nearer than clip. Queries and those of the keys that one of them reaches stand side by side, the last rows on a
// level.
Partial near(const Relative& r) {
  Tape& tape = r.tape();
  const Call& call = r.call;
  const std::int64_t n_q = call.q.dim(1), n_k = call.k.dim(1), keys = std::min(n_k, n_q + r.clip - 1);
  const std::int64_t rows = std::max(n_q, keys);
  Diagonals along;
  for (std::int64_t offset = 1 - r.clip; offset <= (call.options.causal ? 0 : r.clip - 1); ++offset)
    along.offsets.push_back(offset);
  const std::int64_t count = std::ssize(along.offsets);
  const auto of_keys = [&](const Var& x) {
    return last_rows(tape, cast(tape, slice(tape, x, 1, n_k - keys, n_k), r.wide), rows);
  };
  const auto of_queries = [&](const Var& x) { return slice(tape, x, 1, rows - n_q, rows); };

  const Var q = last_rows(tape, cast(tape, call.q, r.wide), rows);
  Var scores = diagonal_scores(tape, q, of_keys(call.k), along, {.scale = r.scale});
  if (keys < rows) scores = add(tape, scores, without_keys(r, rows, rows - keys, along.offsets));
  const Var biased = add(tape, scores, last_rows(tape, slice(tape, r.offsets, 3, 1, 1 + count), rows));
  const Var weights = softmax(tape, biased);
  const Var mixed = mix_diagonals(tape, weights, of_keys(call.v), along);
  const Var own = matmul(tape, weights, slice(tape, r.values(), 0, 1, 1 + count));
  return {of_queries(add(tape, mixed, own)), of_queries(log_sum_exp(tape, biased))};
}

Partial attend(const Call& call) {
  Tape& tape = call.tape;
  const DType wide = wide_type(call.q.dtype());
  const double scale_factor = scale_of(call);
  const Var transposed = transpose(tape, call.options.weights[kKeys], 0, 1);  // (d_k, 2 clip + 1)
  const Var offsets = scale(tape, matmul(tape, cast(tape, call.q, wide), transposed), scale_factor);
  const Relative r{call, wide, scale_factor, call.mechanism.integer("clip"), offsets};
  Partial all = near(r);
  if (call.k.dim(1) > r.clip) all = merge(tape, all, before(r));
  if (!call.options.causal && call.q.dim(1) > r.clip) all = merge(tape, all, after(r));
  return all;
}

AttentionResult run(const Call& call) {
  const auto body = [](const Call& part) { return cast(part.tape, attend(part).output, part.q.dtype()); };
  return {each_sequence(call, body), {}, {}};
}

reference::Result define(const reference::Problem& p, const Mechanism& mechanism) {
  const std::int64_t clip = mechanism.integer("clip");
  const auto column = [&](std::int64_t i, std::int64_t j) {
    return std::min(std::max(j - p.position(i), -clip), clip) + clip;
  };
  reference::Problem with_keys = p;
  const double scale = scale_of(p);
  with_keys.bias = [&](std::int64_t head, std::int64_t i, std::int64_t j) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < p.d_k; ++c)
      sum += p.query(i, head)[c] * p.weights[kKeys][static_cast<std::size_t>(column(i, j) * p.d_k + c)];
    return scale * sum;
  };
  // Once more with unit vectors as values gives the weights, which the relative values need.
  reference::Problem unit = with_keys;
  unit.d_v = p.n_k;
  unit.v.assign(static_cast<std::size_t>(p.n_k * p.kv_heads * p.n_k), 0.0);
  for (std::int64_t j = 0; j < p.n_k; ++j)
    for (std::int64_t h = 0; h < p.kv_heads; ++h)
      unit.v[static_cast<std::size_t>((j * p.kv_heads + h) * p.n_k + j)] = 1.0;
  reference::Result out = reference::pairwise(with_keys, reference::Weights::softmax);
  const std::vector<double> weights = reference::pairwise(unit, reference::Weights::softmax).o;
  for (std::int64_t row = 0; row < p.n_q * p.heads; ++row)
    for (std::int64_t j = 0; j < p.n_k; ++j)
      for (std::int64_t c = 0; c < p.d_v; ++c)
        out.o[static_cast<std::size_t>(row * p.d_v + c)] +=
            weights[static_cast<std::size_t>(row * p.n_k + j)] *
            p.weights[kValues][static_cast<std::size_t>(column(row / p.heads, j) * p.d_v + c)];
  return out;
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const std::int64_t rows = 2 * mechanism.integer("clip") + 1;
  return {{.name = "relative_keys",
           .shape = {rows, s.d_k},
           .init = Init::xavier(rows, s.d_k),
           .axes = "2 clip + 1, d_k",
           .meaning = "added to a key, for all heads: row key - query + clip, the difference clipped to clip"},
          {.name = "relative_values",
           .shape = {rows, s.d_v},
           .init = Init::xavier(rows, s.d_v),
           .axes = "2 clip + 1, d_v",
           .meaning = "the same for values"}};
}

}  // namespace

const MechanismKind& shaw_kind() {
  static const MechanismKind kind{
      .name = "shaw",
      .family = "score",
      .summary = "softmax with a learned key and value for every distance up to a clip",
      .paper = "Shaw et al. 2018, Self-Attention with Relative Position Representations",
      .parameters = {{"clip", std::int64_t{16}, 1, 4096, {}, "distances beyond it count as this one"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::scale, Feature::step, Feature::grouped, Feature::strict},
      .subquadratic = false,
      .step = cached_step(),
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea

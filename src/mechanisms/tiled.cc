#include "mechanisms/tiled.h"

#include <algorithm>
#include <cmath>

#include "autograd/add_into.h"
#include "mechanisms/diagonal_bias.h"
#include "mechanisms/mask.h"
#include "mechanisms/positions.h"
#include "mechanisms/results.h"
#include "mechanisms/score.h"
#include "mechanisms/watch.h"
#include "ops/work.h"
#include "tile/merge.h"

namespace fovea {
namespace {

// A range of heads.
struct Heads {
  std::int64_t begin = 0, end = 0;

  bool overlaps(const Heads& other) const { return begin < other.end && other.begin < end; }
  Tensor of(const Tensor& x) const { return x.defined() ? x.slice(2, begin, end) : x; }  // (b, n, heads, ...)
  Tensor of_bias(const Tensor& x) const { return x.defined() && x.dim(1) > 1 ? x.slice(1, begin, end) : x; }
};

// One call of the engine: a part of the pattern, for some heads of q and those of k they read.
struct Run {
  tile::Work work;
  Heads heads = {}, kv_heads = {};
  bool joins = false, joins_keys = false;  // an earlier run has had some of these heads, of q or of k
};

// Everything the engine is told, kept for backward.
struct TiledCall {
  std::vector<Run> runs;
  Tensor slopes;
  std::vector<Sequences::Rows> queries, keys;
  bool scattered = false;      // parts or steps: no single run reaches every pair of a bias
  std::int64_t diagonals = 0;  // the bias goes by distance: 2 L - 1 elements for a head
};
using SharedCall = std::shared_ptr<const TiledCall>;

enum Saved : std::size_t { kQ, kK, kV, kO, kRest, kLse, kBias };

// A sequence, or some of its rows: begin, and how many.
struct Pairing {
  Sequences::Rows q, k;
};

// The rows of a sequence whose positions are r modulo the step. Queries are aligned with the last key, so the last
// query of a class sits on its last key.
Pairing residue_of(const Pairing& whole, std::int64_t step, std::int64_t r) {
  const auto [q, k] = whole;
  const auto count = [&](std::int64_t rows, std::int64_t first) {
    return std::max<std::int64_t>(0, (rows - first + step - 1) / step);
  };
  const std::int64_t first_q = (((r - (k.count - q.count)) % step) + step) % step;
  return {{q.batch, q.begin + first_q, count(q.count, first_q)}, {k.batch, k.begin + r, count(k.count, r)}};
}

// Where a piece finds its diagonals: the engine goes by rows, they by query position - key position + L - 1.
std::int64_t first_diagonal(const Pairing& whole, std::int64_t diagonals) {
  const auto& [q, k] = whole;
  return diagonals == 0 ? 0 : (diagonals - 1) / 2 + (k.count - q.count) - q.begin + k.begin;
}

// use(the rows, their pattern, the step) for each dense piece of a part.
template <class Use>
void each_piece(const Pairing& whole, const Part& part, const Use& use) {
  // No two positions are further apart than both lengths: a longer step only ever meets itself.
  const std::int64_t step = std::max<std::int64_t>(1, std::min(part.step, whole.q.count + whole.k.count));
  for (std::int64_t r = 0; r < step; ++r) {
    const Pairing rows = residue_of(whole, step, r);
    if (rows.q.count == 0 && rows.k.count == 0) continue;
    use(rows, step == 1 ? part.pattern : part.pattern.every(step, r), step);
  }
}

void add_pieces(const Pairing& whole, const Part& part, std::int64_t diagonals, tile::PieceList& pieces) {
  each_piece(whole, part, [&](const Pairing& rows, const Pattern& pattern, std::int64_t step) {
    const auto [q, k] = rows;
    pieces.add({.batch = q.batch,
                .q0 = q.begin,
                .nq = q.count,
                .k0 = k.begin,
                .nk = k.count,
                .q_step = step,
                .k_step = step,
                .kv_head = part.head,
                .bias_at = first_diagonal(whole, diagonals)},
               pattern);
  });
}

// Parts of single heads can be pieces of one run, where no two of them share a head of k.
bool runs_heads_together(const Call& call) { return call.q.dim(2) == call.k.dim(2); }

// The run of part p: the parts of a head are in different runs.
std::size_t run_of(const std::vector<Part>& parts, std::size_t p, bool together) {
  const auto before = parts.begin() + static_cast<std::ptrdiff_t>(p);
  const auto same_head = [&](const Part& part) { return part.head == parts[p].head; };
  return together ? static_cast<std::size_t>(std::count_if(parts.begin(), before, same_head)) : p;
}

Run start_run(const Call& call, const Part& part, const std::vector<Run>& before) {
  const std::int64_t heads = call.q.dim(2), kv_heads = call.k.dim(2), kv = part.head * kv_heads / heads;
  const bool all = part.head < 0 || runs_heads_together(call);
  Run run{.work = {.pieces = tile::PieceList(call.tape.context().device())}};
  run.heads = all ? Heads{0, heads} : Heads{part.head, part.head + 1};
  run.kv_heads = all ? Heads{0, kv_heads} : Heads{kv, kv + 1};
  for (const Run& other : before) {
    run.joins |= run.heads.overlaps(other.heads);
    run.joins_keys |= run.kv_heads.overlaps(other.kv_heads);
  }
  return run;
}

void add_runs(const Call& call, const Tiled& tiled, TiledCall& out) {
  const bool together = runs_heads_together(call);
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    std::vector<Part> parts{{tiled.pattern}};
    if (tiled.parts) parts = tiled.parts(call.queries[s].count, call.keys[s].count);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t index = run_of(parts, p, together);
      if (index == out.runs.size()) out.runs.push_back(start_run(call, parts[p], out.runs));
      Part part = parts[p];
      part.pattern = kept_by(call.options, part.pattern);
      if (!together) part.head = -1;  // the run is all of it
      out.scattered |= p > 0 || part.step > 1;
      add_pieces({call.queries[s], call.keys[s]}, part, out.diagonals, out.runs[index].work.pieces);
    }
  }
}

// Parts of a softmax are joined before they are rounded.
bool sums_are_wide(const Tiled& tiled, const TiledCall& call) {
  return tiled.wide || std::any_of(call.runs.begin(), call.runs.end(), [](const Run& run) { return run.joins; });
}

SharedCall describe(const Call& call, const Tiled& tiled, double scale) {
  auto out = std::make_shared<TiledCall>();
  const AttentionOptions& options = call.options;
  if (options.diagonal_bias.defined()) out->diagonals = options.diagonal_bias.dim(2);
  add_runs(call, tiled, *out);
  if (options.alibi) out->slopes = alibi_slopes(call.tape.context(), call.q.dim(2), options.heads);
  out->queries = call.queries;
  out->keys = call.keys;
  tile::Dropout dropout;
  if (options.dropout_p > 0.0 && call.tape.training())
    dropout = {static_cast<float>(options.dropout_p), call.tape.context().seed(), call.tape.next_stream()};
  for (Run& run : out->runs) {
    run.work.rule = tiled.rule;
    tile::Problem& p = run.work.problem;
    p.dtype = call.q.dtype();
    p.wide_outputs = sums_are_wide(tiled, *out);
    p.heads = run.heads.end - run.heads.begin;
    p.kv_heads = run.kv_heads.end - run.kv_heads.begin;
    p.d_k = call.q.dim(3);
    p.d_v = call.v.dim(3);
    p.weight = tiled.weight;
    p.offset = tiled.offset;
    p.degree = tiled.degree;
    p.scale = scale;
    p.dropout = dropout;
    p.dropout.first_head = options.heads.first + run.heads.begin;
  }
  return out;
}

// What a run reads of the whole inputs.
tile::Inputs inputs_of(const Run& run, const tile::Inputs& whole) {
  const Heads &h = run.heads, &kv = run.kv_heads;
  return {h.of(whole.q), kv.of(whole.k), kv.of(whole.v), h.of_bias(whole.bias),
          whole.alibi.defined() ? whole.alibi.slice(0, h.begin, h.end) : Tensor()};
}

// Runs one part backward. All parts have the softmax of the whole row: its o and log-sum-exp are all they need of each
// other. What an earlier run has written is added to.
void vjp_run(const Context& context, const TiledCall& call, const Run& run, const tile::BackwardTensors& p) {
  const Heads &h = run.heads, &kv = run.kv_heads;
  const auto place = [&](const Tensor& whole, bool joins, const std::vector<Sequences::Rows>& rows) {
    return joins ? output_like(context, whole.shape(), whole.dtype(), rows) : whole;
  };
  const Tensor dq = h.of(p.dq), dk = kv.of(p.dk), dv = kv.of(p.dv), d_bias = h.of_bias(p.d_bias);
  const Tensor to_q = place(dq, run.joins, call.queries), to_k = place(dk, run.joins_keys, call.keys),
               to_v = place(dv, run.joins_keys, call.keys);
  // A bias by distance is added to as it is.
  const bool bias_apart = call.scattered && call.diagonals == 0 && d_bias.defined();
  const Tensor to_bias = bias_apart ? Tensor::zeros(context, d_bias.shape(), d_bias.dtype()) : d_bias;
  tile::backward(context, run.work,
                 {.in = inputs_of(run, p.in),
                  .o = h.of(p.o),
                  .lse = h.of(p.lse),
                  .rest = h.of(p.rest),
                  .d_o = h.of(p.d_o),
                  .d_lse = h.of(p.d_lse),
                  .dq = to_q,
                  .dk = to_k,
                  .dv = to_v,
                  .d_bias = to_bias});
  if (run.joins) add_into(context, dq, to_q);
  if (run.joins_keys) {
    add_into(context, dk, to_k);
    add_into(context, dv, to_v);
  }
  if (bias_apart) add_into(context, d_bias, to_bias);
}

// Whether every element of a bias has a pair of rows in a piece: one sequence fills each batch item. Between packed
// sequences are pairs of no piece, even where they fill all rows; and a broadcast element may have no pair at all.
bool reaches_every_pair(const TiledCall& call, const Shape& q, const Shape& k) {
  const bool has_pairs = q[0] > 0 && q[1] > 0 && k[1] > 0;
  return has_pairs && !call.scattered && std::ssize(call.queries) == q[0] && covers(call.queries, q) &&
         covers(call.keys, k);
}

void tiled_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const ZoneTimer timer(context.zones(), Zone::attention);
  const SharedCall& call = std::any_cast<const SharedCall&>(node.attributes);
  const std::vector<Tensor>& saved = node.saved;
  const bool bias_grad = node.inputs.size() > 3 && node.wants(3);
  const tile::BackwardTensors vjp{
      .in = {saved[kQ], saved[kK], saved[kV], saved[kBias], call->slopes},
      .o = saved[kO],
      .lse = saved[kLse],
      .rest = saved[kRest],
      .d_o = node.grad(0).defined() ? dense_rows(context, node.grad(0))
                                    : Tensor::zeros(context, saved[kO].shape(), saved[kO].dtype()),
      .d_lse = node.outputs.size() > 1 ? node.grad(1) : Tensor(),
      .dq = gradient_like(tape, node.inputs[0], saved[kQ], call->queries),
      .dk = gradient_like(tape, node.inputs[1], saved[kK], call->keys),
      .dv = gradient_like(tape, node.inputs[2], saved[kV], call->keys),
      .d_bias = bias_grad ? Tensor::empty(context, saved[kBias].shape(), saved[kBias].dtype()) : Tensor()};
  if (bias_grad && (call->diagonals > 0 || !reaches_every_pair(*call, saved[kQ].shape(), saved[kK].shape())))
    vjp.d_bias.fill(0.0);
  for (const Run& run : call->runs) vjp_run(context, *call, run, vjp);
  tape.accumulate(node.inputs[0], vjp.dq);
  tape.accumulate(node.inputs[1], vjp.dk);
  tape.accumulate(node.inputs[2], vjp.dv);
  if (bias_grad) tape.accumulate(node.inputs[3], vjp.d_bias);
}

constexpr Op kTiled{"tiled_attention", tiled_backward};

// Runs one part forward, and joins it to what earlier runs left.
void attend_run(const Context& context, const Run& run, const tile::ForwardTensors& a,
                const tile::StatisticsTensors& statistics) {
  const Heads& h = run.heads;
  const Tensor o = h.of(a.o), lse = h.of(a.lse);
  const Tensor to = run.joins ? Tensor::empty(context, o.shape(), o.dtype()) : o;
  const Tensor to_lse = run.joins ? Tensor::empty(context, lse.shape(), lse.dtype()) : lse;
  if (run.joins) to_lse.fill(-INFINITY);
  const tile::ForwardTensors io{inputs_of(run, a.in), to, to_lse, h.of(a.rest)};
  statistics.entropy.defined() ? tile::forward_measured(context, run.work, io, statistics)
                               : tile::forward(context, run.work, io);
  if (run.joins) tile::merge(context, {o, lse}, {to, to_lse}, {o, lse});
}

// What a watch wants to know of the rows of each run.
std::vector<tile::StatisticsTensors> wanted_statistics(const Context& context, const TiledCall& call, const Tensor& q) {
  std::vector<tile::StatisticsTensors> all(call.runs.size());
  const AttentionWatch* watch = AttentionWatch::current();
  const std::int64_t top = watch == nullptr ? 0 : watch->top_keys();
  if (top <= 0 || context.device() != Device::cpu) return all;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Run& run = call.runs[r];
    if (run.work.rule || run.work.problem.weight != tile::Weight::softmax) continue;
    const std::int64_t heads = run.work.problem.heads;
    const DType wide = wide_type(q.dtype());
    all[r] = {Tensor::empty(context, {q.dim(0), q.dim(1), heads}, wide),
              Tensor::empty(context, {q.dim(0), q.dim(1), heads, top}, DType::i32),
              Tensor::empty(context, {q.dim(0), q.dim(1), heads, top}, wide)};
    all[r].entropy.fill(NAN);
    all[r].top_keys.fill(-1.0);
    all[r].top_scores.fill(-INFINITY);
  }
  return all;
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const auto slope = [](std::int64_t h, std::int64_t of) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(of));
  };
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(slope(h, power));
  for (std::int64_t h = 0; std::ssize(slopes) < heads; h += 2)  // every other slope of 2 * power heads
    slopes.push_back(slope(h, 2 * power));
  return slopes;
}

Tensor alibi_slopes(const Context& context, std::int64_t heads, const HeadShare& share) {
  const std::vector<double> slopes = alibi_slopes(share.of(heads));
  return Tensor::from<double>(
      context, {heads},
      std::span(slopes).subspan(static_cast<std::size_t>(share.first), static_cast<std::size_t>(heads)));
}

double count_pairs(const std::vector<Part>& parts, const Sizes& sizes) {
  const Sequences::Rows rows{0, 0, static_cast<std::int64_t>(sizes.n)};
  double pairs = 0.0;
  for (Part part : parts) {
    if (sizes.causal) part.pattern = part.pattern & Pattern::causal();
    each_piece({rows, rows}, part, [&](const Pairing& at, const Pattern& pattern, std::int64_t) {
      const auto plan = tile::plan_for(Device::cpu, pattern, at.q.count, at.k.count);
      pairs += static_cast<double>(plan->kept_pairs) * (part.head < 0 ? sizes.heads : 1.0);
    });
  }
  return pairs;
}

AttentionResult run_tiled(const Call& call, const Tiled& tiled) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const Scored score = scored(call);
  const auto [wide_q, wide_k] = rotated(call, score.q, score.k);
  const Var q = cast(tape, wide_q, call.q.dtype()), k = cast(tape, wide_k, call.q.dtype());
  const Var bias = call.options.diagonal_bias.defined()
                       ? reversed_distances(tape, call.options.diagonal_bias)
                       : masked_bias(tape, call.options.bias, call.options.mask, wide_type(q.dtype()));
  const Tensor tq = dense_rows(context, q.value()), tk = dense_rows(context, k.value()),
               tv = dense_rows(context, call.v.value());
  const SharedCall described = describe(call, tiled, score.scale);

  const bool wide = sums_are_wide(tiled, *described), has_statistic = !tiled.rule && tile::has_statistic(tiled.weight);
  std::vector<Var> inputs{q, k, call.v};
  if (bias.defined()) inputs.push_back(bias);
  const Shape shape{q.dim(0), q.dim(1), q.dim(2), tv.dim(3)};
  const Tensor o = output_like(context, shape, wide ? wide_type(q.dtype()) : q.dtype(), call.queries);
  Tensor rest, lse;
  if (has_statistic && o.dtype() != wide_type(o.dtype()) && tape.wants_grad(inputs))
    rest = Tensor::empty(context, shape, o.dtype());
  if (has_statistic) {
    lse = Tensor::empty(context, {q.dim(0), q.dim(1), q.dim(2)}, wide_type(q.dtype()));
    lse.fill(-INFINITY);
  }
  const std::vector<tile::StatisticsTensors> statistics = wanted_statistics(context, *described, tq);
  for (std::size_t r = 0; r < described->runs.size(); ++r)
    attend_run(context, described->runs[r], {{tq, tk, tv, bias.value(), described->slopes}, o, lse, rest},
               statistics[r]);

  std::vector<Tensor> outputs{o};
  if (call.options.return_lse) outputs.push_back(lse);
  const std::vector<Var> results =
      tape.record(kTiled, inputs, std::move(outputs), {tq, tk, tv, o, rest, lse, bias.value()}, described);
  const Var output = tiled.wide ? results[0] : cast(tape, results[0], q.dtype());
  if (AttentionWatch* watch = AttentionWatch::current()) {
    TiledSeen seen{{}, lse, call.v, output};
    for (std::size_t r = 0; r < described->runs.size(); ++r) {
      const Run& run = described->runs[r];
      seen.runs.push_back(
          {run.work, inputs_of(run, {tq, tk, tv, bias.value(), described->slopes}), run.heads.begin, statistics[r]});
    }
    watch->on_tiled(seen);
  }
  return {output, results.size() > 1 ? results[1] : Var(), {}};
}

}  // namespace fovea

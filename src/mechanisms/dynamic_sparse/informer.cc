#include <algorithm>
#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/dynamic_sparse/prob_sparse.h"
#include "mechanisms/tiled.h"
#include "ops/sequence.h"
#include "reference/informer.h"

namespace fovea {
namespace {

reference::ProbSparse settings(const Mechanism& m) {
  return {m.integer("factor"), m.choice("choice") == "prefix", m.choice("filler") == "sum", m.choice("term") == "keys"};
}

// The same row for every head and item: i32 (b, n_q, heads).
template <class Row>
Tensor index_by_query(const Call& call, const Row& row) {
  const Shape shape{call.q.dim(0), call.q.dim(1), call.q.dim(2)};
  std::vector<std::int32_t> index;
  for (std::int64_t r = 0; r < shape.numel(); ++r)
    index.push_back(static_cast<std::int32_t>(row(r / shape[2] % shape[1])));
  return Tensor::from<std::int32_t>(call.tape.context(), shape, index);
}

// What the other queries get: the mean of all values, or of those so far.
Var filler(const Call& call, bool sum) {
  Tape& tape = call.tape;
  const std::int64_t heads = call.q.dim(2), n_k = call.v.dim(1), shift = n_k - call.q.dim(1);
  if (!call.options.causal) {
    const Var mean = segment_mean(tape, call.v, 1).means;
    const Index first(index_by_query(call, [](std::int64_t) { return 0; }), 0, 1);
    return take_rows(tape, repeat_heads(tape, mean, heads), first);
  }
  const DType dtype = wide_type(call.q.dtype());
  Var running = cumsum(tape, cast(tape, call.v, dtype));
  if (!sum) {
    std::vector<double> shares;
    for (std::int64_t j = 0; j < n_k; ++j)
      shares.insert(shares.end(), static_cast<std::size_t>(call.v.dim(2) * call.v.dim(3)),
                    1.0 / static_cast<double>(j + 1));
    const Shape shape{n_k, call.v.dim(2), call.v.dim(3)};
    running = mul(tape, running, Tensor::from<double>(tape.context(), shape, shares).to(tape.context(), dtype));
  }
  const Var rows = repeat_heads(tape, cast(tape, running, call.q.dtype()), heads);
  const Tensor own = index_by_query(call, [&](std::int64_t i) { return std::max<std::int64_t>(-1, i + shift); });
  return take_rows(tape, rows, Index(own, -1, n_k));
}

Var attend(const Call& call) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const reference::ProbSparse how = settings(call.mechanism);
  const double scale = scale_of(call);
  const std::int64_t n_q = call.q.dim(1);
  const std::int64_t first = call.options.causal ? std::max<std::int64_t>(0, n_q - call.k.dim(1)) : 0;
  const Tensor measured = query_measures(call, how, scale);
  const Tensor index = call.options.causal && how.prefix
                           ? prefix_choice(context, measured, first, how.factor)
                           : top_indices(context, measured, kept_of(n_q - first, how.factor));
  const Index chosen(index, -1, n_q, true);
  const Var q = take_rows(tape, call.q, chosen);
  AttentionOptions options;
  options.scale = scale;
  if (call.options.causal) options.bias = causal_bias(call, index);
  const Call dense{
      tape, q, call.k, call.v, call.mechanism, options, Sequences{}.rows(q.dim(0), q.dim(1), "queries"), call.keys};
  return put_rows(tape, filler(call, how.sum), chosen, run_tiled(dense, {}).output);
}

// Heads come before positions when a row is read as one: what published decoders make of their output.
Var mixed(Tape& tape, const Var& o) {
  return reshape(tape, by_head(tape, o), {o.dim(0), o.dim(1), o.dim(2), o.dim(3)});
}

Var attend_and_mix(const Call& call) {
  const Var o = attend(call);
  return call.mechanism.flag("mix") ? mixed(call.tape, o) : o;
}

AttentionResult run(const Call& call) { return {each_sequence(call, attend_and_mix), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::informer(problem, settings(mechanism));
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::strict && (mechanism.choice("choice") == "all" || mechanism.flag("mix"));
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const auto kept = static_cast<double>(kept_of(static_cast<std::int64_t>(s.n), mechanism.integer("factor")));
  Flops all = pairwise_flops(s.n * kept * (s.causal ? 0.5 : 1.0), s);
  all.forward += 2.0 * s.n * kept * s.heads * s.d_k;  // the measures
  return all;
}

}  // namespace

const MechanismKind& informer_kind() {
  static const MechanismKind kind{
      .name = "informer",
      .family = "dynamic sparse",
      .summary = "the queries with the most uneven scores attend, the others get the mean value (ProbSparse)",
      .paper = "Zhou et al. 2021, Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting",
      .parameters = {{"factor", std::int64_t{5}, 1, 1024, {}, "c: c ceil(ln n) keys are sampled and queries kept"},
                     {"choice",
                      std::string("prefix"),
                      0,
                      0,
                      {"prefix", "all"},
                      "causal: a query competes with those before it on keys up to its own, or with all on all keys"},
                     {"filler",
                      std::string("mean"),
                      0,
                      0,
                      {"mean", "sum"},
                      "causal: what the other queries get of the values so far"},
                     {"term",
                      std::string("sample"),
                      0,
                      0,
                      {"sample", "keys"},
                      "the mean in the measure divides by the sample, or by all keys as published code does"},
                     {.name = "mix",
                      .fallback = false,
                      .help = "heads and positions change places in the output, as in published decoders",
                      .lawless = true}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding,
                   Feature::packed, Feature::grouped, Feature::strict},
      .lacks = lacks,
      .subquadratic = true,
      .memory = StepMemory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .log_factor = true,
      .chooses = true,
      .draws = [](const Mechanism&) { return true; },
  };
  return kind;
}

}  // namespace fovea

#include <algorithm>

#include "mechanisms/kernel/chunks.h"
#include "mechanisms/kernel/gated.h"
#include "mechanisms/positions.h"
#include "mechanisms/scanned.h"
#include "reference/units.h"

namespace fovea {
namespace {

double linear_divisor(const Mechanism& mechanism, bool causal, std::int64_t n) {
  const bool by_length = !causal && mechanism.choice("divisor") == "length";
  return static_cast<double>(by_length ? n : mechanism.integer("chunk"));
}

// Rows [begin, begin + count length) of each, as count sequences of `length` rows: relu(q k / chunk + bias)^2 v.
struct Part {
  std::int64_t begin, count, length;
};
Var inside(const Call& call, const Triple& x, const Part& part) {
  Tape& tape = call.tape;
  const auto cut = [&](const Var& rows) {
    return reshape(tape, slice(tape, rows, 1, part.begin, part.begin + part.count * part.length),
                   {rows.dim(0) * part.count, part.length, rows.dim(2), rows.dim(3)});
  };
  AttentionOptions options;
  options.causal = call.options.causal;
  options.scale = 1.0 / static_cast<double>(call.mechanism.integer("chunk"));
  options.diagonal_bias = by_distance(tape, call.options.weights[2], part.length);
  const Var out =
      run_tiled_on(call, {cut(x.q), cut(x.k), cut(x.v)}, options, {.weight = tile::Weight::relu2, .pattern = {}})
          .output;
  return reshape(tape, out, {x.q.dim(0), part.count * part.length, x.q.dim(2), x.v.dim(3)});
}

Var inside_chunks(const Call& call, const Triple& x) {
  const std::int64_t n = x.q.dim(1), chunk = call.mechanism.integer("chunk"), whole = n / chunk;
  std::vector<Var> parts;
  if (whole > 0) parts.push_back(inside(call, x, {0, whole, chunk}));
  if (n % chunk > 0) parts.push_back(inside(call, x, {whole * chunk, 1, n % chunk}));
  return parts.size() == 1 ? parts[0] : concat(call.tape, parts, 1);
}

// Every chunk reads the sums of those before it, or, when it may, of all of them.
Var across_chunks(const Call& call, const Triple& x) {
  Tape& tape = call.tape;
  if (call.options.causal) {
    const std::int64_t heads = x.q.dim(2);
    return read_earlier_chunks(tape, {x.q, repeat_heads(tape, x.k, heads), repeat_heads(tape, x.v, heads)},
                               call.mechanism.integer("chunk"));
  }
  const AttentionOptions options;
  return run_scanned({tape, x.q, x.k, x.v, call.mechanism, options, call.queries, call.keys}, {}).output;
}

Var body(const Call& call) {
  Tape& tape = call.tape;
  const auto pair = [&](std::int64_t first) {
    const auto [q, k] = rotated(call, scaled_copy(call, call.q, first), scaled_copy(call, call.k, first + 1));
    return Triple{q, k, call.v};
  };
  const double by = linear_divisor(call.mechanism, call.options.causal, call.k.dim(1));
  return add(tape, inside_chunks(call, pair(0)), scale(tape, across_chunks(call, pair(2)), 1.0 / by));
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& p, const Mechanism& m) {
  return reference::flash_gau(p, {m.integer("chunk"), m.choice("divisor") == "length"});
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  std::vector<WeightSpec> list = copy_weights(4, sizes.d_k);
  list.push_back(distance_weight(mechanism.integer("chunk"), "2 chunk - 1"));
  return list;
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double chunk = std::min(static_cast<double>(mechanism.integer("chunk")), s.n);
  const Flops pairs = pairwise_flops(s.n * chunk * (s.causal ? 0.5 : 1.0), s);
  const double state = 4.0 * s.n * s.heads * s.d_k * s.d_v;
  return {pairs.forward + state, pairs.backward + 2.0 * state};
}

}  // namespace

const MechanismKind& flash_gau_kind() {
  static const MechanismKind kind{
      .name = "flash-gau",
      .family = "kernel",
      .summary = "flash-quad inside chunks, linear attention across them (the mixed chunk attention of FLASH)",
      .paper = "Hua et al. 2022, Transformer Quality in Linear Time",
      .parameters = {{"chunk", std::int64_t{256}, 1, 65536, {}, "tokens in a chunk"},
                     {"divisor",
                      std::string("chunk"),
                      0,
                      0,
                      {"chunk", "length"},
                      "of the linear half when it is bidirectional: the chunk, or the length of the sequence"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed, Feature::rotary,
                   Feature::grouped, Feature::strict},
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
      .style = kGatedUnit,
  };
  return kind;
}

}  // namespace fovea

#include <fmt/format.h>

#include <cmath>

#include "mechanisms/compose.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

bool each_head(const Mechanism& mechanism) { return mechanism.choice("sharing") == "none"; }
bool one_for_both(const Mechanism& mechanism) {
  return mechanism.choice("sharing") == "kv" || mechanism.choice("sharing") == "layerwise";
}

// x (b, n, heads, d) -> (b, slots, heads, d), by the first n columns of w (slots, most) or (heads, slots, most). Items
// and channels stand side by side, so that it is one product, or one for each head.
Var compress(Tape& tape, const Var& x, const Var& w) {
  const std::int64_t b = x.dim(0), n = x.dim(1), heads = x.dim(2), d = x.dim(3);
  const int last = w.value().rank() - 1;
  if (n > w.dim(last))
    fail(ErrorCode::bad_input, fmt::format("a sequence of {} tokens, linformer was made for {}", n, w.dim(last)), "k",
         "a larger max_length");
  const Var e = slice(tape, w, last, 0, n);
  if (last == 1) {
    const Var y = matmul(tape, e, reshape(tape, transpose(tape, x, 0, 1), {n, b * heads * d}));
    return transpose(tape, reshape(tape, y, {w.dim(0), b, heads, d}), 0, 1);
  }
  const Var y = matmul(tape, e, reshape(tape, transpose(tape, x, 0, 2), {heads, n, b * d}));
  return transpose(tape, reshape(tape, y, {heads, w.dim(1), b, d}), 0, 2);
}

Var body(const Call& call) {
  const std::vector<Var>& w = call.options.weights;
  const Var keys = compress(call.tape, call.k, w.front()), values = compress(call.tape, call.v, w.back());
  return run_tiled_on(call, {call.q, keys, values}, call.options, {}).output;
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::linformer(problem, {mechanism.integer("slots"), each_head(mechanism)});
}

bool lacks(const Mechanism& mechanism, Feature feature) { return feature == Feature::grouped && each_head(mechanism); }

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const std::int64_t slots = mechanism.integer("slots"), most = sizes.max_length;
  Shape shape = each_head(mechanism) ? Shape{sizes.kv_heads, slots, 0} : Shape{slots, 0};
  shape.set(-1, most);  // -1 where it is not known
  // A slot of the longest sequence is as large as a key.
  const Init init = Init::normal(most > 0 ? 1.0 / std::sqrt(static_cast<double>(most)) : 0.02);
  const bool trained = !mechanism.flag("frozen"), shared = mechanism.choice("sharing") == "layerwise";
  const std::string_view axes = each_head(mechanism) ? "kv_heads, slots, max_length" : "slots, max_length";
  std::vector<WeightSpec> list{{.name = "compress",
                                .shape = shape,
                                .init = init,
                                .trained = trained,
                                .shared = shared,
                                .axes = axes,
                                .meaning =
                                    "E: how much of the key at a position goes to a slot; of the value too where "
                                    "there is no other"}};
  if (!one_for_both(mechanism))
    list.push_back({.name = "compress_values",
                    .shape = shape,
                    .init = init,
                    .trained = trained,
                    .axes = axes,
                    .meaning = "F: how much of the value at a position goes to a slot"});
  return list;
}

// Two compressions, and attention to the slots.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double pairs = s.n * static_cast<double>(mechanism.integer("slots"));
  const Flops slots = pairwise_flops(pairs, s);
  const double compression = pairs * s.heads * 2.0 * (s.d_k + s.d_v);
  return {slots.forward + compression, slots.backward + 2.0 * compression};
}

}  // namespace

const MechanismKind& linformer_kind() {
  static const MechanismKind kind{
      .name = "linformer",
      .family = "low rank",
      .summary = "keys and values are compressed along the sequence to a fixed number of slots by learned matrices",
      .paper = "Wang et al. 2020, Linformer: Self-Attention with Linear Complexity",
      .parameters = {{"slots", std::int64_t{128}, 1, 65536, {}, "keys and values are compressed to so many"},
                     {"sharing",
                      std::string("headwise"),
                      0,
                      0,
                      {"headwise", "none", "kv", "layerwise"},
                      "headwise: one matrix for keys, one for values; none: of each head its own; kv: one for both; "
                      "layerwise: one for both and all layers"},
                     {"frozen", false, 0, 0, {}, "the matrices stay as they were drawn"}},
      .features = {Feature::scale, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::dropout, Feature::grouped},
      .lacks = lacks,
      .subquadratic = true,
      .memory = StepMemory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea

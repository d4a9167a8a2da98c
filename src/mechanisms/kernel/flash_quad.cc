#include <algorithm>

#include "mechanisms/compose.h"
#include "mechanisms/kernel/gated.h"
#include "reference/units.h"

namespace fovea {
namespace {

bool current(const Mechanism& mechanism) { return mechanism.choice("scale") == "current"; }

double divisor(const Mechanism& mechanism, std::int64_t n) {
  return current(mechanism) ? static_cast<double>(n) : mechanism.number("divisor");
}

Var body(const Call& call) {
  Tape& tape = call.tape;
  const double by = divisor(call.mechanism, call.k.dim(1));
  AttentionOptions options = call.options;
  options.scale = 1.0 / by;
  if (call.mechanism.integer("table") > 0) {
    const Var bias = by_distance(tape, call.options.weights[2], std::max(call.q.dim(1), call.k.dim(1)));
    options.diagonal_bias = call.mechanism.flag("bias_scaled") ? scale(tape, bias, 1.0 / by) : bias;
  }
  return run_tiled_on(call, {scaled_copy(call, call.q, 0), scaled_copy(call, call.k, 1), call.v}, options,
                      {.weight = tile::Weight::relu2, .pattern = {}})
      .output;
}

AttentionResult run(const Call& call) { return {each_sequence(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::flash_quad(
      problem, {m.integer("table"), m.choice("scale") == "current" ? 0.0 : m.number("divisor"), m.flag("bias_scaled")});
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return current(mechanism) && (feature == Feature::strict || feature == Feature::step);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  std::vector<WeightSpec> list = copy_weights(2, sizes.d_k);
  const std::int64_t table = mechanism.integer("table");
  if (table > 0) list.push_back(distance_weight(table, "2 table - 1"));
  return list;
}

}  // namespace

const MechanismKind& flash_quad_kind() {
  static const MechanismKind kind{
      .name = "flash-quad",
      .family = "kernel",
      .summary = "squared rectified scores of one narrow head, no normaliser; the layer gates the output (GAU)",
      .paper = "Hua et al. 2022, Transformer Quality in Linear Time",
      .parameters =
          {{"scale", std::string("fixed"), 0, 0, {"fixed", "current"}, "divide scores by divisor, or by the length"},
           {"divisor", 512.0, 1.0, 1e9, {}, "of the scores"},
           {"table",
            std::int64_t{512},
            0,
            65536,
            {},
            "learned biases by distance, for keys fewer positions away than this; 0: none"},
           {"bias_scaled", false, 0, 0, {}, "divide the biases too, as one port does"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::dropout, Feature::window, Feature::pattern, Feature::rotary, Feature::step,
                   Feature::grouped, Feature::strict},
      .lacks = lacks,
      .subquadratic = false,
      .step = {.run = step_on_cache, .first_needed = window_start, .rotates_inside = true},
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = weights,
      .style = kGatedUnit,
  };
  return kind;
}

}  // namespace fovea

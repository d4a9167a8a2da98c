#include "reference/sharp.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  AttentionOptions options = call.options;
  options.scale = call.mechanism.number("sharpness") * scale_of(call);
  return run_tiled({call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys}, {});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::sharp(problem, mechanism.number("sharpness"));
}

}  // namespace

const MechanismKind& sharp_kind() {
  static const MechanismKind kind{
      .name = "sharp",
      .family = "weights",
      .summary = "softmax of scores that are made larger first: nearer to picking one key",
      .paper = "none: it is the example of CONTRIBUTING.md",
      .parameters = {{"sharpness", 2.0, 0.01, 100.0, {}, "factor of the scores; 1: softmax"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::step, Feature::grouped, Feature::strict},
      .subquadratic = false,
      .step = cached_step(),
      .run = run,
      .reference = define,
      .flops = dense_flops,
  };
  return kind;
}

}  // namespace fovea

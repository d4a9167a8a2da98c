#include "mechanisms/score.h"
#include "mechanisms/step_forms.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) { return run_tiled(call, {tile::Weight::softmax, Pattern::full()}); }

Tensor step(const StepCall& step) {
  return is_scaled_dot(step.call.mechanism) && is_plain_query(step) ? attend_caches(step) : step_on_cache(step);
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::pairwise(scored(problem, mechanism), reference::Weights::softmax);
}

}  // namespace

const MechanismKind& softmax_kind() {
  static const MechanismKind kind{
      .name = "softmax",
      .family = "weights",
      .summary = "softmax of scaled dot products: every query weighs every key",
      .paper = "Vaswani et al. 2017, Attention Is All You Need",
      .parameters = {score_parameter()},
      .features = kPairwise,
      .lacks = score_lacks,
      .subquadratic = false,
      .step = {.run = step, .first_needed = window_start},
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = score_weights,
  };
  return kind;
}

}  // namespace fovea

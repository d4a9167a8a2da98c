#include "mechanisms/score.h"
#include "mechanisms/tiled.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  return run_tiled(call, {.pattern = Pattern::full(), .rule = tile::RowRule{.kind = tile::RowRuleKind::sparsemax}});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism),
                           [&](const reference::Row& s, std::int64_t) { return reference::sparsemax_weights(s); });
}

}  // namespace

const MechanismKind& sparsemax_kind() {
  static const MechanismKind kind{
      .name = "sparsemax",
      .family = "weights",
      .summary = "the nearest point of the simplex to the scores: most weights are exactly zero",
      .paper = "Martins and Astudillo 2016, From Softmax to Sparsemax",
      .parameters = {score_parameter()},
      .features = kPairwiseNoLse,
      .lacks = score_lacks,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = score_weights,
  };
  return kind;
}

}  // namespace fovea

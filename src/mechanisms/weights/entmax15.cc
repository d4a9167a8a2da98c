#include "mechanisms/score.h"
#include "mechanisms/tiled.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  return run_tiled(call, {.pattern = Pattern::full(), .rule = tile::RowRule{.kind = tile::RowRuleKind::entmax15}});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism),
                           [&](const reference::Row& s, std::int64_t) { return reference::entmax15_weights(s); });
}

}  // namespace

const MechanismKind& entmax15_kind() {
  static const MechanismKind kind{
      .name = "entmax15",
      .family = "weights",
      .summary = "between softmax and sparsemax (alpha 1.5): smooth, with exact zeros",
      .paper = "Peters, Niculae and Martins 2019, Sparse Sequence-to-Sequence Models",
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

#include "mechanisms/score.h"
#include "mechanisms/tiled.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  return run_tiled(call, {.pattern = Pattern::full(),
                          .rule = tile::RowRule{.kind = tile::RowRuleKind::top_k, .k = call.mechanism.integer("k")}});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism), [&](const reference::Row& s, std::int64_t) {
    return reference::top_k_weights(s, mechanism.integer("k"));
  });
}

}  // namespace

const MechanismKind& topk_kind() {
  static const MechanismKind kind{
      .name = "topk",
      .family = "weights",
      .summary = "softmax over the k largest scores of each row",
      .paper = "Zhao et al. 2019, Explicit Sparse Transformer",
      .parameters = {score_parameter(),
                     {"k", std::int64_t{32}, 1, 1 << 20, {}, "keys that are kept; equal scores: the first win"}},
      .features = kPairwiseNoLse,
      .lacks = score_lacks,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = score_weights,
      .chooses = true,
  };
  return kind;
}

}  // namespace fovea

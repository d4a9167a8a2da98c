#include "mechanisms/compose.h"
#include "mechanisms/weights/weights_kind.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

Var keep_largest(const Call& call) {
  return run_tiled(call, {.pattern = Pattern::full(),
                          .rule = tile::RowRule{.kind = tile::RowRuleKind::top_k, .k = call.mechanism.integer("k")}})
      .output;
}

// Rows of q and k that are made here, turned or of length 1, are not rounded to half before keys are chosen by them:
// the products of row rules are of f32 in any case.
AttentionResult run(const Call& call) {
  const std::string& score = call.mechanism.choice("score");
  const bool made = call.options.rotary || score == "cosine" || score == "bilinear";
  return {made ? in_wide_type(call, keep_largest) : keep_largest(call), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism), [&](const reference::Row& s, std::int64_t) {
    return reference::top_k_weights(s, mechanism.integer("k"));
  });
}

}  // namespace

const MechanismKind& topk_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "topk",
      .summary = "softmax over the k largest scores of each row",
      .paper = "Zhao et al. 2019, Explicit Sparse Transformer",
      .parameters = {{"k", std::int64_t{32}, 1, 1 << 20, {}, "keys that are kept; equal scores: the first win"}},
      .run = run,
      .reference = define,
      .chooses = true,
  });
  return kind;
}

}  // namespace fovea

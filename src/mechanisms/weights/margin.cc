#include "mechanisms/weights/weights_kind.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

bool on_diagonal(const Mechanism& mechanism) { return mechanism.choice("target") == "diagonal"; }

AttentionResult run(const Call& call) {
  const tile::RowRule rule{
      .kind = tile::RowRuleKind::margin,
      .margin = call.mechanism.number("margin"),
      .target = on_diagonal(call.mechanism) ? tile::MarginTarget::diagonal : tile::MarginTarget::largest,
      .training = call.tape.training()};
  return run_tiled(call, {.pattern = Pattern::full(), .rule = rule});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism), [&](const reference::Row& s, std::int64_t own) {
    if (!problem.training) return reference::softmax_weights(s);
    return reference::margin_weights(s, mechanism.number("margin"),
                                     on_diagonal(mechanism) ? own : reference::first_largest(s));
  });
}

}  // namespace

const MechanismKind& margin_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "margin",
      .summary = "softmax whose target pays a margin while training: the largest score, or the own position",
      .paper = "Wang et al. 2018, Additive Margin Softmax for Face Verification (the idea, taken to attention)",
      .parameters = {{"margin", 0.5, 0.0, 100.0, {}, "subtracted from the score of the target"},
                     {"target", std::string("largest"), 0, 0, {"largest", "diagonal"}, "who pays"}},
      .run = run,
      .reference = define,
      .chooses = true,
  });
  return kind;
}

}  // namespace fovea

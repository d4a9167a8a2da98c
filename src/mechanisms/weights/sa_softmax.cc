#include "mechanisms/weights/weights_kind.h"
#include "reference/row_rules.h"

namespace fovea {
namespace {

bool is_plain(const Mechanism& mechanism) { return mechanism.choice("variant") == "plain"; }

AttentionResult run(const Call& call) {
  if (is_plain(call.mechanism))
    return run_tiled(call, {.weight = tile::Weight::self_adjust, .pattern = Pattern::full()});
  const tile::RowRule rule{.kind = tile::RowRuleKind::self_adjust_normalized, .detach = call.mechanism.flag("detach")};
  return run_tiled(call, {.pattern = Pattern::full(), .rule = rule});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  if (is_plain(mechanism)) return reference::pairwise(scored(problem, mechanism), reference::Weights::self_adjust);
  return reference::by_row(scored(problem, mechanism),
                           [](const reference::Row& s, std::int64_t) { return reference::self_adjust_weights(s); });
}

}  // namespace

const MechanismKind& sa_softmax_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "sa-softmax",
      .summary = "softmax times its own scores, plain or scaled to [0, 1]: gradients stay alive when a weight nears 1",
      .paper = "Self-Adjust Softmax, arXiv 2502.18277, 2025",
      .parameters =
          {{"variant", std::string("plain"), 0, 0, {"plain", "normalized"}, "normalized: by the extremes of the row"},
           {.name = "detach",
            .fallback = false,
            .help = "normalized: the extremes are constants in backward (an approximate gradient)",
            .lawless = true}},
      .run = run,
      .reference = define,
      .chooses = true,
  });
  return kind;
}

}  // namespace fovea

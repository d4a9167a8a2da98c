#include "mechanisms/kernel/feature.h"
#include "mechanisms/scanned.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  const bool add = call.mechanism.choice("denominator") == "add";
  return run_scanned(call, {.map = map_of(call.mechanism),
                            .denominator = add ? scan::Denominator::add : scan::Denominator::clamp,
                            .denominator_eps = call.mechanism.number("eps")});
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const bool add = mechanism.choice("denominator") == "add";
  return reference::kernelized(
      problem, {reference_map_of(mechanism), add ? reference::Denominator::add : reference::Denominator::clamp,
                mechanism.number("eps")});
}

}  // namespace

const MechanismKind& linear_kind() {
  static const MechanismKind kind{
      .name = "linear",
      .family = "kernel",
      .summary = "weights are products of positive features, so keys and values are summed once",
      .paper = "Katharopoulos et al. 2020, Transformers are RNNs",
      .parameters = {{"map", std::string("elu+1"), 0, 0, {"elu+1", "relu"}, "feature map of q and k"},
                     {"denominator", std::string("add"), 0, 0, {"add", "clamp"}, "D + eps, or max(D, eps)"},
                     {"eps", 1e-6, 0.0, 1.0, {}, "keeps the denominator away from 0"}},
      .features = kRecurrent,  // no rotary: rotated features may be negative, and the denominator pass through 0
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = scan_flops,
  };
  return kind;
}

}  // namespace fovea

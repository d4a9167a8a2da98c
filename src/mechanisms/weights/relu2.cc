#include "mechanisms/compose.h"
#include "mechanisms/weights/weights_kind.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  const bool normed = call.mechanism.choice("norm") == "rms";
  AttentionResult result = run_tiled(call, {.weight = tile::Weight::relu2, .pattern = Pattern::full(), .wide = normed});
  if (!normed) return result;
  const Var y = normalize_heads(call.tape, result.output, NormKind::rms, call.mechanism.number("eps"));
  result.output = cast(call.tape, y, call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  reference::Result result = reference::pairwise(scored(problem, mechanism), reference::Weights::relu2);
  if (mechanism.choice("norm") == "rms")
    reference::normalize_rows(problem, result, reference::RowNorm::rms, mechanism.number("eps"));
  return result;
}

}  // namespace

const MechanismKind& relu2_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "relu2",
      .summary = "squared positive scores as weights, no normaliser; the output is normalised over all heads",
      .paper = "So et al. 2021, Primer; Hua et al. 2022, Transformer Quality in Linear Time",
      .parameters = {{"norm", std::string("rms"), 0, 0, {"rms", "none"}, "norm of the output over all heads"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .run = run,
      .reference = define,
  });
  return kind;
}

}  // namespace fovea

#include "mechanisms/layout.h"
#include "mechanisms/tiled.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  AttentionResult result = run_tiled(call, {tile::Weight::rela, Pattern::full()});
  if (call.mechanism.choice("norm") == "rms")
    result.output = normalize_heads(call.tape, result.output, NormKind::rms, call.mechanism.number("eps"));
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  reference::Result result = reference::pairwise(problem, reference::Weights::rela);
  if (mechanism.choice("norm") == "rms")
    reference::normalize_rows(problem, result, reference::RowNorm::rms, mechanism.number("eps"));
  return result;
}

}  // namespace

const MechanismKind& rela_kind() {
  static const MechanismKind kind{
      .name = "rela",
      .family = "weights",
      .summary = "rectified scores as weights, no normaliser; the output is normalised over all heads",
      .paper = "Zhang et al. 2021, Sparse Attention with Linear Units",
      .parameters = {{"norm", std::string("rms"), 0, 0, {"rms", "none"}, "norm of the output over all heads"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .features = kPairwiseNoLse,
      .subquadratic = false,
      .memory = Memory::cache,
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .first_needed = window_start,
  };
  return kind;
}

}  // namespace fovea

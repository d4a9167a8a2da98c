#include "mechanisms/compose.h"
#include "mechanisms/kernel/feature.h"
#include "mechanisms/scanned.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  const std::string& norm = call.mechanism.choice("norm");
  const double eps = call.mechanism.number("eps");
  const bool afterwards = norm == "rms-a" || norm == "layer";
  AttentionResult result = run_scanned(
      call, {.map = map_of(call.mechanism), .rms_norm = norm == "rms", .norm_eps = eps, .wide = afterwards});
  if (!afterwards) return result;
  const NormKind kind = norm == "rms-a" ? NormKind::rms_a : NormKind::layer;
  result.output = cast(call.tape, normalize_heads(call.tape, result.output, kind, eps), call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  reference::Result result =
      reference::kernelized(problem, {reference_map_of(mechanism), reference::Denominator::none, 0.0});
  const std::string& norm = mechanism.choice("norm");
  const auto kind = norm == "rms"     ? reference::RowNorm::rms
                    : norm == "rms-a" ? reference::RowNorm::rms_a
                    : norm == "layer" ? reference::RowNorm::layer
                                      : reference::RowNorm::none;
  reference::normalize_rows(problem, result, kind, mechanism.number("eps"));
  return result;
}

}  // namespace

const MechanismKind& norm_kind() {
  static const MechanismKind kind{
      .name = "norm",
      .family = "kernel",
      .summary = "linear attention with a norm over all heads instead of a denominator (NormAttention of TransNormer)",
      .paper = "Qin et al. 2022, The Devil in Linear Transformer",
      .parameters =
          {{"map", std::string("elu+1"), 0, 0, {"elu+1", "elu", "relu"}, "feature map: T2 uses elu+1, T1 elu"},
           {"norm",
            std::string("rms"),
            0,
            0,
            {"rms", "rms-a", "layer", "none"},
            "rms: eps inside the root; rms-a: eps added to the root (the published code)"},
           {"eps", 1e-6, 1e-12, 1.0, {}, "keeps the norm away from 0"}},
      .features = kRecurrent.with(Feature::rotary),
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = scan_flops,
  };
  return kind;
}

}  // namespace fovea

#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/weights/weights_kind.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

bool is_gated(const Mechanism& mechanism) { return mechanism.choice("norm") == "gated"; }

// gain o norm(x) o sigmoid(gate o x), over all heads together; gain and gate are the last two weights.
Var gated_norm(const Call& call, const Var& output) {
  Tape& tape = call.tape;
  const std::vector<Var>& weights = call.options.weights;
  const Var &gain = weights[weights.size() - 2], &gate = weights.back();
  const Var x = reshape(tape, output, {output.dim(0), output.dim(1), gain.dim(0)});
  const Var normed = normalize(tape, x, {.kind = NormKind::rms, .eps = call.mechanism.number("eps"), .gain = gain});
  const Var y = mul(tape, normed, activate(tape, mul(tape, x, gate), Activation::sigmoid));
  return reshape(tape, y, {output.dim(0), output.dim(1), output.dim(2), output.dim(3)});
}

Var normed(const Call& call, const Var& x) {
  const std::string& norm = call.mechanism.choice("norm");
  const double eps = call.mechanism.number("eps");
  if (norm == "gated") return gated_norm(call, x);
  if (norm == "head") return normalize(call.tape, x, {.kind = NormKind::rms, .eps = eps});
  return normalize_heads(call.tape, x, NormKind::rms, eps);
}

AttentionResult run(const Call& call) {
  const bool plain = call.mechanism.choice("norm") == "none";
  AttentionResult result = run_tiled(call, {.weight = tile::Weight::rela, .pattern = Pattern::full(), .wide = !plain});
  if (!plain) result.output = cast(call.tape, normed(call, result.output), call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  reference::Result result = reference::pairwise(scored(problem, mechanism), reference::Weights::rela);
  const std::vector<double> x = result.o;
  if (mechanism.choice("norm") == "head")
    reference::normalize_each_head(problem, result, mechanism.number("eps"));
  else if (mechanism.choice("norm") != "none")
    reference::normalize_rows(problem, result, reference::RowNorm::rms, mechanism.number("eps"));
  if (!is_gated(mechanism)) return result;
  const std::vector<double>&gain = problem.weights[problem.weights.size() - 2], &gate = problem.weights.back();
  for (std::size_t i = 0; i < x.size(); ++i)
    result.o[i] *= gain[i % gain.size()] / (1.0 + std::exp(-gate[i % gate.size()] * x[i]));
  return result;
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  std::vector<WeightSpec> all = score_weights(mechanism, sizes);
  if (!is_gated(mechanism)) return all;
  const std::int64_t width = sizes.heads * sizes.d_v;
  all.push_back({.name = "gain",
                 .shape = {width},
                 .init = Init::ones(),
                 .axes = "heads d_v",
                 .meaning = "factors of the normalised output"});
  all.push_back({.name = "gate",
                 .shape = {width},
                 .init = Init::normal(1.0 / std::sqrt(static_cast<double>(width))),
                 .axes = "heads d_v",
                 .meaning = "w of the gate sigmoid(w x), x the output before its norm"});
  return all;
}

}  // namespace

const MechanismKind& rela_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "rela",
      .summary = "rectified scores as weights, no normaliser; the output is normalised over all heads",
      .paper = "Zhang et al. 2021, Sparse Attention with Linear Units",
      .parameters = {{"norm",
                      std::string("rms"),
                      0,
                      0,
                      {"rms", "gated", "head", "none"},
                      "norm of the output over all heads; gated: times a learned gate of it; head: over each head"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .run = run,
      .reference = define,
      .weights = weights,
  });
  return kind;
}

}  // namespace fovea

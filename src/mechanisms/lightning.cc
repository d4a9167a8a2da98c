#include "mechanisms/compose.h"
#include "mechanisms/scanned.h"
#include "mechanisms/tiled.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

// Which of how many layers.
struct Depth {
  std::int64_t layer, layers;
};

// Heads forget at different rates, and lower layers faster than upper ones.
std::vector<float> log_decays(const Mechanism& m, std::int64_t heads, const Depth& depth) {
  const auto layer = static_cast<double>(depth.layer), layers = static_cast<double>(depth.layers);
  std::vector<float> out;
  if (m.choice("slopes") == "alibi") {
    const double factor = 1.0 - layer / std::max(layers - 1.0, 1.0) + 1e-5;
    for (float slope : alibi_slopes(heads)) out.push_back(static_cast<float>(-slope * factor));
    return out;
  }
  for (std::int64_t h = 0; h < heads; ++h)
    out.push_back(
        static_cast<float>(-8.0 * static_cast<double>(h) / static_cast<double>(heads) * (1.0 - layer / layers)));
  return out;
}

AttentionResult run(const Call& given) {
  const Call call = with_repeated_heads(given);
  const AttentionOptions& options = call.options;
  return run_scanned(call,
                     {.rms_norm = call.mechanism.choice("norm") == "rms",
                      .norm_eps = call.mechanism.number("eps"),
                      .head_log_decay = log_decays(call.mechanism, call.q.dim(2), {options.layer, options.layers})});
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  const std::vector<float> decays = log_decays(m, problem.heads, {problem.layer, problem.layers});
  reference::Result result = reference::decayed(problem, {.log_decay = {decays.begin(), decays.end()}});
  if (m.choice("norm") == "rms") reference::normalize_rows(problem, result, reference::RowNorm::rms, m.number("eps"));
  return result;
}

}  // namespace

const MechanismKind& lightning_kind() {
  static const MechanismKind kind{
      .name = "lightning",
      .family = "kernel",
      .summary = "linear attention that fades with distance, normalised over all heads (Lightning of TransNormerLLM)",
      .paper = "Qin et al. 2024, Lightning Attention-2",
      .parameters = {{"slopes",
                      std::string("alibi"),
                      0,
                      0,
                      {"alibi", "linear"},
                      "rates of the heads: powers of 2 as in ALiBi, or 8 h / heads"},
                     {"norm", std::string("rms"), 0, 0, {"rms", "none"}, "norm of the output over all heads"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .features = kDecayed.with(Feature::rotary),
      .subquadratic = true,
      .memory = StepMemory::state,
      .run = run,
      .reference = define,
      .flops = scan_flops,
      .style = {.qk_activation = Activation::silu, .gate = true, .gate_activation = Activation::identity},
  };
  return kind;
}

}  // namespace fovea

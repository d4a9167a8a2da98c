#include "mechanisms/kernel/head_decay.h"
#include "mechanisms/tiled.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

// Which of how many layers.
struct Depth {
  std::int64_t layer, layers;
};

bool has_alibi_slopes(const Mechanism& m) { return m.choice("slopes") == "alibi"; }

// Heads forget at different rates, and lower layers faster than upper ones.
std::vector<double> log_decays(const Mechanism& m, std::int64_t heads, const Depth& depth) {
  const auto layer = static_cast<double>(depth.layer), layers = static_cast<double>(depth.layers);
  std::vector<double> out;
  if (has_alibi_slopes(m)) {
    const double factor = 1.0 - layer / std::max(layers - 1.0, 1.0) + 1e-5;
    for (const double slope : alibi_slopes(heads)) out.push_back(-slope * factor);
    return out;
  }
  for (std::int64_t h = 0; h < heads; ++h)
    out.push_back(-8.0 * static_cast<double>(h) / static_cast<double>(heads) * (1.0 - layer / layers));
  return out;
}

AttentionResult run(const Call& call) {
  const Mechanism& m = call.mechanism;
  return run_with_decays(call,
                         {.rms_norm = m.choice("norm") == "rms",
                          .norm_eps = m.number("eps"),
                          .head_log_decay = of_heads(call, log_decays(m, call.options.heads.of(call.q.dim(2)),
                                                                      {call.options.layer, call.options.layers}))});
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  reference::Result result = reference::lightning(problem, has_alibi_slopes(m));
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
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = scan_flops,
      .style = {.qk_activation = Activation::silu, .gate = true, .gate_activation = Activation::identity},
  };
  return kind;
}

}  // namespace fovea

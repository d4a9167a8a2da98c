#include <cmath>

#include "mechanisms/kernel/head_decay.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

// log(1 - 2^(-5 - h))
std::vector<double> log_decays(std::int64_t heads) {
  std::vector<double> out;
  for (std::int64_t h = 0; h < heads; ++h) out.push_back(std::log1p(-std::exp2(-5.0 - static_cast<double>(h))));
  return out;
}

// Keys are not scaled: the norm of s o with eps is that of o with eps / s^2, and the sign of s.
AttentionResult run(const Call& call) {
  const double s = scale_of(call), eps = call.mechanism.number("eps");
  const std::vector<double> decays = of_heads(call, log_decays(call.options.heads.of(call.q.dim(2))));
  AttentionResult result = run_with_decays(call, {.wide = true, .head_log_decay = decays});
  const bool normed = call.mechanism.choice("norm") == "rms";
  Var y = result.output;
  if (normed) y = normalize(call.tape, y, {.kind = NormKind::rms, .eps = eps / (s * s)});
  if (!normed || s < 0.0) y = scale(call.tape, y, normed ? -1.0 : s);
  result.output = cast(call.tape, y, call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  reference::Result result = reference::retention(problem);
  if (m.choice("norm") == "rms") reference::normalize_each_head(problem, result, m.number("eps"));
  return result;
}

}  // namespace

const MechanismKind& retnet_kind() {
  static const MechanismKind kind{
      .name = "retnet",
      .family = "kernel",
      .summary = "products of q and k that fade with distance, each head at its own rate (retention)",
      .paper = "Sun et al. 2023, Retentive Network: A Successor to Transformer",
      .parameters = {{"norm", std::string("rms"), 0, 0, {"rms", "none"}, "norm of each head of the output"},
                     {"eps", 1e-6, 1e-12, 1.0, {}, "added to the mean square inside the root"}},
      .features = kDecayed.with(Feature::rotary).with(Feature::scale),
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = scan_flops,
      .style = {.value_factor = 2, .gate = true},
  };
  return kind;
}

}  // namespace fovea

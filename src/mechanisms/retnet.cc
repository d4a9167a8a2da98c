#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/scanned.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

// log(1 - 2^(-5 - h))
std::vector<float> log_decays(std::int64_t heads) {
  std::vector<float> out;
  for (std::int64_t h = 0; h < heads; ++h)
    out.push_back(static_cast<float>(std::log1p(-std::exp2(-5.0 - static_cast<double>(h)))));
  return out;
}

// Keys are not scaled: the norm of s o with eps is that of o with eps / s^2.
AttentionResult run(const Call& given) {
  const Call call = with_repeated_heads(given);
  const double s = scale_of(call), eps = call.mechanism.number("eps");
  AttentionResult result = run_scanned(call, {.wide = true, .head_log_decay = log_decays(call.q.dim(2))});
  const Var y = call.mechanism.choice("norm") == "rms"
                    ? normalize(call.tape, result.output, {.kind = NormKind::rms, .eps = eps / (s * s)})
                    : scale(call.tape, result.output, s);
  result.output = cast(call.tape, y, call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  const std::vector<float> decays = log_decays(problem.heads);
  reference::Result result =
      reference::decayed(problem, {.log_decay = {decays.begin(), decays.end()}, .scale = scale_of(problem)});
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
      .memory = Memory::state,
      .run = run,
      .reference = define,
      .flops = scan_flops,
      .style = {.value_factor = 2, .gate = true},
  };
  return kind;
}

}  // namespace fovea

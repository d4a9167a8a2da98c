#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/scanned.h"
#include "ops/features.h"
#include "ops/sequence.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

enum Weight : std::size_t { kDown, kUp, kBias, kGain };

// Logs of the gates of every channel, (b, n_k, kv_heads, d_k).
Var log_gates(const Call& call) {
  Tape& tape = call.tape;
  const std::vector<Var>& weights = call.options.weights;
  const Var x = fill_padding(tape, call.options.input, key_sequences(call));
  const Var low = cast(tape, linear(tape, x, weights[kDown]), weights[kUp].dtype());
  const Var z = linear(tape, low, weights[kUp], weights[kBias]);
  const Var g = log_sigmoid(tape, z, 1.0 / call.mechanism.number("temperature"));
  return reshape(tape, g, {call.k.dim(0), call.k.dim(1), call.k.dim(2), call.k.dim(3)});
}

// Queries are not scaled: the norm of s o with eps is that of o with eps / s^2, and the sign of s.
AttentionResult run(const Call& call) {
  const double s = scale_of(call), eps = call.mechanism.number("eps");
  AttentionResult result = run_scanned(call, {.wide = true, .log_decay = log_gates(call)});
  Var y = normalize(call.tape, result.output,
                    {.kind = NormKind::rms, .eps = eps / (s * s), .gain = call.options.weights[kGain]});
  if (s < 0.0) y = scale(call.tape, y, -1.0);
  result.output = cast(call.tape, y, call.q.dtype());
  return result;
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::gated_linear(problem, {.rank = m.integer("rank"),
                                           .temperature = m.number("temperature"),
                                           .scale = scale_of(problem),
                                           .eps = m.number("eps")});
}

// The scan, and the gates from an input as wide as all heads together.
Flops flops(const Sizes& s, const Mechanism& m) {
  const Flops scan = scan_flops(s, m);
  const double width = s.heads * s.d_k, products = 4.0 * s.n * static_cast<double>(m.integer("rank")) * width;
  return {scan.forward + products, scan.backward + 2.0 * products};
}

std::vector<WeightSpec> weights(const Mechanism& m, const LayerSizes& sizes) {
  const std::int64_t rank = m.integer("rank"), keys = sizes.kv_heads * sizes.d_k;
  const std::int64_t width = std::max<std::int64_t>(1, sizes.width);
  return {{.name = "decay.down",
           .shape = {sizes.width, rank},
           .init = Init::xavier(width, rank),
           .decay = true,
           .axes = "width, rank",
           .meaning = "first factor of the gates: x W_1"},
          {.name = "decay.up",
           .shape = {rank, keys},
           .init = Init::xavier(rank, keys),
           .decay = true,
           .axes = "rank, kv_heads d_k",
           .meaning = "second factor: x W_1 W_2 has a number for every channel of every kv head"},
          {.name = "decay.bias",
           .shape = {keys},
           .init = Init::zeros(),
           .axes = "kv_heads d_k",
           .meaning = "added to it before the sigmoid"},
          {.name = "norm.gain",
           .shape = {sizes.d_v},
           .init = Init::ones(),
           .axes = "d_v",
           .meaning = "factors of the normalised output, for all heads"}};
}

}  // namespace

const MechanismKind& gla_kind() {
  static const MechanismKind kind{
      .name = "gla",
      .family = "kernel",
      .summary = "linear attention whose state forgets each channel by a gate of the input (gated linear attention)",
      .paper = "Yang et al. 2024, Gated Linear Attention Transformers with Hardware-Efficient Training",
      .parameters = {{"rank", std::int64_t{16}, 1, 65536, {}, "rank of the product that makes the gates"},
                     {"temperature", 16.0, 1e-3, 1e6, {}, "the gate is sigmoid(x)^(1 / temperature)"},
                     {"eps", 1e-5, 1e-12, 1.0, {}, "added to the mean square of a head inside the root"}},
      .features = kDecayed.with(Feature::rotary).with(Feature::scale),
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .needs_input = true,
      .style = {.gate = true},
  };
  return kind;
}

}  // namespace fovea

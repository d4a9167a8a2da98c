#include <cmath>

#include "mechanisms/gaussian.h"
#include "mechanisms/positions.h"
#include "mechanisms/tiled.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  const auto [q, k] = rotated(call, call.q, call.k);
  AttentionOptions options = call.options;
  options.rotary.reset();
  options.scale = gaussian_scale(call);
  return run_tiled(
      {tape, gaussian_features(tape, q, Side::query, call.queries), gaussian_features(tape, k, Side::key, call.keys),
       call.v, call.mechanism, options, call.queries, call.keys},
      {.weight = tile::Weight::exp, .pattern = {}});
}

reference::Result define(const reference::Problem& problem, const Mechanism&) { return reference::gaussian(problem); }

}  // namespace

const MechanismKind& kernelized_kind() {
  static const MechanismKind kind{
      .name = "kernelized",
      .family = "kernel",
      .summary = "a Gaussian kernel of the distance of q and k as weights, no normaliser",
      .paper = "Chen et al. 2021, Skyformer: Remodel Self-Attention with Gaussian Kernel and Nystrom Method",
      .parameters = {},
      .features = kPairwiseNoLse,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = dense_flops,
  };
  return kind;
}

}  // namespace fovea

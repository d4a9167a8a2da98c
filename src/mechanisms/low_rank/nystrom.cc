#include <algorithm>
#include <cmath>

#include "mechanisms/compose.h"
#include "ops/inverse.h"
#include "ops/sequence.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

// Landmarks of a sequence; 0: as many as tokens, for then A A^+ A is A.
std::int64_t landmarks_for(const Mechanism& mechanism, std::int64_t n_q, std::int64_t n_k) {
  const std::int64_t wanted = mechanism.integer("landmarks");
  return std::max(n_q, n_k) <= wanted ? 0 : std::min({wanted, n_q, n_k});
}

// softmax(q K~^T) A^+ softmax(Q~ k^T) v from right to left: the outer two run on tiles and are never stored.
Var body(const Call& call) {
  Tape& tape = call.tape;
  AttentionOptions options;
  options.scale = scale_of(call);
  const std::int64_t count = landmarks_for(call.mechanism, call.queries[0].count, call.keys[0].count);
  if (count == 0)
    return run_tiled({tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys}, {}).output;
  const Var q_mean = segment_mean(tape, call.q, count, call.options.queries).means;  // (sequences, count, heads, d)
  const Var k_mean = repeat_heads(tape, segment_mean(tape, call.k, count, call.options.keys).means, call.q.dim(2));
  const Var scores = matmul(tape, by_head(tape, q_mean), transpose(tape, by_head(tape, k_mean), 2, 3));
  const Var middle = softmax(tape, scale(tape, scores, *options.scale));  // (sequences, heads, count, count)
  const Var inverse =
      iterative_inverse(tape, middle, {call.mechanism.integer("steps"), call.mechanism.flag("batch_start")});
  const auto marks = rows_beside(call, count);
  const Var far =
      run_tiled({tape, beside(call, q_mean), call.k, call.v, call.mechanism, options, marks, call.keys}, {}).output;
  const Var by_mark = reshape(tape, far, {q_mean.dim(0), count, call.q.dim(2), call.v.dim(3)});
  const Var values = by_token(tape, matmul(tape, inverse, by_head(tape, by_mark)));
  return run_tiled(
             {tape, call.q, beside(call, k_mean), beside(call, values), call.mechanism, options, call.queries, marks},
             {})
      .output;
}

Var with_residual(const Call& call) {
  const Var out = body(call);
  if (call.mechanism.integer("conv") == 0) return out;
  const Var v = repeat_heads(call.tape, call.v, call.q.dim(2));
  return add(call.tape, out, depthwise_conv(call.tape, v, call.options.weights[0], {.rows = call.options.keys}));
}

AttentionResult run(const Call& given) {
  const auto kind = [&](std::int64_t n_q, std::int64_t n_k) { return landmarks_for(given.mechanism, n_q, n_k); };
  return {in_wide_type(given, [&](const Call& call) { return all_sequences(call, with_residual, kind); }), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::nystrom(problem, {m.integer("landmarks"), m.integer("steps"), m.integer("conv")});
}

bool lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::cross && mechanism.integer("conv") > 0;
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const std::int64_t taps = mechanism.integer("conv");
  if (taps == 0) return {};
  const double bound = 1.0 / std::sqrt(static_cast<double>(taps));
  return {{.name = "conv",
           .shape = {sizes.heads, taps},
           .init = {Init::Kind::uniform, bound},
           .axes = "heads, conv",
           .meaning = "of a convolution of the values along the sequence: tap t meets row i + t - conv / 2"}};
}

Flops flops(const Sizes& s, const Mechanism& m) {
  const double count = std::min(static_cast<double>(m.integer("landmarks")), s.n);
  return landmark_flops(count, static_cast<double>(m.integer("steps")), s);
}

}  // namespace

const MechanismKind& nystrom_kind() {
  static const MechanismKind kind{
      .name = "nystrom",
      .family = "low rank",
      .summary = "softmax through landmarks: means of segments stand for the queries and keys in between",
      .paper = "Xiong et al. 2021, Nystromformer: A Nystrom-Based Algorithm for Approximating Self-Attention",
      .parameters = {{"landmarks", std::int64_t{64}, 1, 4096, {}, "segments the sequence is cut into"},
                     {"steps", std::int64_t{6}, 1, 64, {}, "of the iteration for the pseudo-inverse"},
                     {"conv",
                      std::int64_t{0},
                      0,
                      1023,
                      {},
                      "taps of a convolution of the values that is added, one filter for each head; 0: none"},
                     batch_start()},
      .features = {Feature::scale, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::grouped},
      .lacks = lacks,
      .subquadratic = true,
      .memory = StepMemory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea

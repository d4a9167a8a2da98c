#include <algorithm>
#include <cmath>

#include "autograd/host_stream.h"
#include "core/rng.h"
#include "core/visit_device.h"
#include "mechanisms/compose.h"
#include "mechanisms/gaussian.h"
#include "mechanisms/kernel/mixing_kernels.h"
#include "ops/sequence.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

constexpr double kNormEps = 1e-5;
// saved: t, shares.
void mix_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &t = node.saved[0], &shares = node.saved[1];
  const kernels::LogMixingVjp io{t,
                                 shares,
                                 node.grad().contiguous(context),
                                 Tensor::empty(context, t.shape(), t.dtype()),
                                 Tensor::zeros(context, shares.shape(), t.dtype()),
                                 Tensor::zeros(context, {t.dim(0), t.dim(1), t.dim(3)}, t.dtype()),
                                 std::any_cast<double>(node.attributes)};
  visit_device(context, io, [&]<Device D>() { kernels::log_mixing_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.d_t);
  tape.accumulate(node.inputs[1], io.d_shares);
  tape.accumulate(node.inputs[2], io.d_offset);
}

constexpr Op kMix{"lara_mixing", mix_backward};

Var log_mixing(Tape& tape, const Var& t, const Var& shares, const Var& offset, double beta) {
  const Context& context = tape.context();
  const kernels::LogMixing io{t.value().contiguous(context), shares.value().contiguous(context),
                              offset.value().contiguous(context), Tensor::empty(context, t.shape(), t.dtype()), beta};
  visit_device(context, io, [&]<Device D>() { kernels::log_mixing<D>(context, io); });
  return tape.record(kMix, {t, shares, offset}, io.out, {io.t, io.shares}, beta);
}

// What the means are taken of: layer_norm(x W + b), or x itself.
Var prepared(const Call& call, const Var& x, std::size_t first) {
  const std::vector<Var>& w = call.options.weights;
  if (w.empty()) return x;
  return normalize(call.tape, linear(call.tape, x, w[first], w[first + 1]),
                   {.kind = NormKind::layer, .eps = kNormEps, .gain = w[first + 2], .bias = w[first + 3]});
}

// The samples: the means of the proposals, and noise around them in training.
Var sampled(const Call& call, const Var& mu) {
  if (!call.tape.training()) return mu;
  const double asked = call.mechanism.number("noise"),
               deviation = asked > 0.0 ? asked : 1.0 / std::sqrt(gaussian_scale(call));
  Random random(call.tape.context().seed(), next_host_stream(call.tape));
  std::vector<double> noise(static_cast<std::size_t>(mu.value().numel()));
  for (double& x : noise) x = deviation * random.normal();
  const Context& context = call.tape.context();
  return add(call.tape, mu, Tensor::from<double>(context, mu.shape(), noise).to(context, mu.dtype()));
}

// The main diagonals of (b, heads, count, count): (b, heads, count).
Var matrix_diagonal(Tape& tape, const Var& x) {
  const std::int64_t count = x.dim(3);
  const Tensor eye = Tensor::zeros(tape.context(), {count, count}, x.dtype());
  for (std::int64_t i = 0; i < count; ++i) eye.select(0, i).slice(0, i, i + 1).fill(1.0);
  const Tensor ones = Tensor::empty(tape.context(), {count, 1}, x.dtype());
  ones.fill(1.0);
  return reshape(tape, matmul(tape, mul(tape, x, eye), ones), {x.dim(0), x.dim(1), count});
}

struct Landmarks {
  Var q, mu, omega;  // (b, count, heads, d)
};
Landmarks landmarks_of(const Call& call) {
  Tape& tape = call.tape;
  const std::int64_t count = std::min({call.mechanism.integer("landmarks"), call.q.dim(1), call.k.dim(1)});
  const Var q = segment_mean(tape, prepared(call, call.q, 0), count).means;
  const Var k = segment_mean(tape, prepared(call, call.k, 4), count).means;
  const Var mu = add(tape, q, repeat_heads(tape, k, call.q.dim(2)));
  return {q, mu, sampled(call, mu)};
}

// Densities are taken as exp((omega x - |x|^2 / 2) / sqrt d): the factor that omega adds to them cancels in every
// ratio.
Var body(const Call& call) {
  Tape& tape = call.tape;
  const Landmarks marks = landmarks_of(call);
  const std::int64_t b = call.q.dim(0), heads = call.q.dim(2), count = marks.mu.dim(1);
  const std::string& proposals = call.mechanism.choice("proposals");
  AttentionOptions options;
  options.scale = scale_of(call);
  options.return_lse = true;
  const Var omega = gaussian_features(tape, marks.omega, Side::sample);
  const AttentionResult at_keys =
      run_tiled_on(call, {omega, gaussian_features(tape, call.k, Side::key), call.v}, options, {});
  options.return_lse = false;

  const Var mu = gaussian_features(tape, marks.mu, Side::key);
  const Var ell = scale(tape, matmul(tape, by_head(tape, omega), transpose(tape, by_head(tape, mu), 2, 3)),
                        *options.scale);  // (b, heads, sample, proposal)
  const bool optimal = proposals == "optimal";
  const Var density = optimal ? matrix_diagonal(tape, ell) : log_sum_exp(tape, ell);
  const Var offset = add(tape, transpose(tape, at_keys.lse, 1, 2), scale(tape, density, -1.0));
  if (optimal) {
    const Var near = matmul(tape, by_head(tape, call.q), transpose(tape, by_head(tape, marks.q), 2, 3));
    options.bias = log_mixing(tape, softmax(tape, scale(tape, near, *options.scale), 2), softmax(tape, ell), offset,
                              call.mechanism.number("beta"));
  } else {
    options.bias = reshape(tape, offset, {b, heads, 1, count});
  }
  const Var keys = proposals == "biased" ? add(tape, marks.omega, marks.mu) : marks.omega;
  return run_tiled_on(call, {call.q, keys, at_keys.output}, options, {}).output;
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  const std::string& name = m.choice("proposals");
  const auto proposals = name == "optimal"   ? reference::Proposals::optimal
                         : name == "balance" ? reference::Proposals::balance
                                             : reference::Proposals::biased;
  return reference::lara(problem, {m.integer("landmarks"), proposals, m.number("beta"), m.choice("pool") == "learned"});
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  if (mechanism.choice("pool") != "learned") return {};
  const std::int64_t d = sizes.d_k;
  std::vector<WeightSpec> list;
  for (const std::string side : {"query", "key"}) {
    list.push_back({.name = side + "_pool.weight",
                    .shape = {d, d},
                    .init = Init::xavier(d, d),
                    .decay = true,
                    .axes = "d_k, d_k",
                    .meaning = "what rows are multiplied with before they are averaged to landmarks, for all heads"});
    list.push_back({.name = side + "_pool.bias",
                    .shape = {d},
                    .init = Init::zeros(),
                    .axes = "d_k",
                    .meaning = "added to the product"});
    list.push_back({.name = side + "_pool.gain",
                    .shape = {d},
                    .init = Init::ones(),
                    .axes = "d_k",
                    .meaning = "factors after the layer norm of the product"});
    list.push_back({.name = side + "_pool.shift",
                    .shape = {d},
                    .init = Init::zeros(),
                    .axes = "d_k",
                    .meaning = "added after the factors"});
  }
  return list;
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double count = std::min(static_cast<double>(mechanism.integer("landmarks")), s.n);
  return pairwise_flops(2.0 * s.n * count, s);
}

}  // namespace

const MechanismKind& lara_kind() {
  static const MechanismKind kind{
      .name = "lara",
      .family = "kernel",
      .summary = "softmax estimated with a few proposals that all queries share, weighed for each query",
      .paper = "Zheng et al. 2022, Linear Complexity Randomized Self-attention Mechanism",
      .parameters = {{"landmarks", std::int64_t{49}, 1, 4096, {}, "proposals: means of segments of queries and keys"},
                     {"proposals",
                      std::string("optimal"),
                      0,
                      0,
                      {"optimal", "balance", "biased"},
                      "weights of the proposals (mis-opt, mis-bh and mis-biased of the published code)"},
                     {"beta", 1.0, 0.0, 100.0, {}, "how far optimal weights follow the query (published runs: 2)"},
                     {"pool",
                      std::string("learned"),
                      0,
                      0,
                      {"learned", "plain"},
                      "segments of a learned, normalised map of q and k, or of q and k"},
                     {"noise",
                      0.0,
                      0.0,
                      100.0,
                      {},
                      "deviation of the samples in training; 0: d^(1/4), which is consistent (published code: 1)"}},
      .features = {Feature::scale, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::grouped},
      .subquadratic = true,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
      .draws = [](const Mechanism&) { return true; },
  };
  return kind;
}

}  // namespace fovea

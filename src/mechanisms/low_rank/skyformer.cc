#include <algorithm>
#include <cmath>

#include "autograd/host_stream.h"
#include "core/rng.h"
#include "mechanisms/compose.h"
#include "mechanisms/gaussian.h"
#include "ops/inverse.h"
#include "ops/sequence.h"
#include "reference/low_rank.h"

namespace fovea {
namespace {

// Places in [0, 1) that landmarks are taken from: drawn once, and anew at every step of training.
std::vector<double> places(const Call& call) {
  std::vector<double> places = call.options.weights[0].value().to_vector<double>();
  if (call.tape.training() || call.mechanism.choice("redraw") == "always") {
    Random random(call.tape.context().seed(), next_host_stream(call.tape));
    for (double& place : places) place = random.uniform_double();
  } else {
    for (double& place : places) place += 0.5;  // the weight is centred
  }
  return places;
}

// The rows of x (b, n, heads, d) at the places [begin, end), the same for every item and head.
Var pick(const Call& call, const Var& x, const std::vector<double>& places, std::size_t begin, std::size_t end) {
  const std::int64_t n = x.dim(1), heads = x.dim(2), count = static_cast<std::int64_t>(end - begin);
  const Shape shape{x.dim(0), count, heads};
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const double place = places[begin + static_cast<std::size_t>(i / heads % count)] * static_cast<double>(n);
    index.push_back(static_cast<std::int32_t>(std::min(n - 1, static_cast<std::int64_t>(place))));
  }
  return take_rows(call.tape, x, Index(Tensor::from<std::int32_t>(call.tape.context(), shape, index), 0, n));
}

Tensor identities(const Call& call, std::int64_t count) {
  const Tensor out = Tensor::zeros(call.tape.context(), {call.q.dim(0), count, call.q.dim(2), count}, call.q.dtype());
  for (std::int64_t i = 0; i < count; ++i) out.select(1, i).slice(2, i, i + 1).fill(1.0);
  return out;
}

Var body(const Call& call) {
  Tape& tape = call.tape;
  AttentionOptions options;
  options.scale = gaussian_scale(call);
  const auto kernel = [&](const Var& q, const Var& k, const Var& v) {
    return run_tiled_on(call, {q, k, v}, options, {.weight = tile::Weight::exp, .pattern = {}}).output;
  };
  const Var q = gaussian_features(tape, call.q, Side::query), k = gaussian_features(tape, call.k, Side::key);
  // A landmark for every point: what is approximated is less work.
  if (call.q.dim(1) + call.k.dim(1) <= call.mechanism.integer("landmarks")) return kernel(q, k, call.v);
  const std::vector<double> at = places(call);
  const std::size_t half = at.size() / 2;
  const Var k_all = repeat_heads(tape, call.k, call.q.dim(2));
  const Var parts[] = {pick(call, call.q, at, 0, half), pick(call, k_all, at, half, at.size())};
  const Var marks = concat(tape, parts, 1);  // (b, landmarks, heads, d)
  const Var as_query = gaussian_features(tape, marks, Side::query), as_key = gaussian_features(tape, marks, Side::key);
  const Var among = by_head(tape, kernel(as_query, as_key, identities(call, marks.dim(1))));
  const Var inverse =
      regularized_inverse(tape, among,
                          {.shift = call.mechanism.number("gamma"),
                           .iterated = {call.mechanism.integer("steps"), call.mechanism.flag("batch_start")}});
  const Var far = kernel(as_query, k, call.v);
  const Var values = by_token(tape, matmul(tape, inverse, by_head(tape, far)));
  return kernel(q, as_key, values);
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::skyformer(problem, {mechanism.number("gamma"), mechanism.integer("steps")});
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes&) {
  return {{.name = "places",
           .shape = {mechanism.integer("landmarks")},
           .init = {Init::Kind::uniform, 0.5},
           .trained = false,
           .axes = "landmarks",
           .meaning =
               "places minus 1/2, for all heads: landmark i is row floor((place + 1/2) n) of the queries, in the "
               "first half of the list, or of the keys"}};
}

Flops flops(const Sizes& s, const Mechanism& m) {
  return landmark_flops(static_cast<double>(m.integer("landmarks")), static_cast<double>(m.integer("steps")), s);
}

}  // namespace

const MechanismKind& skyformer_kind() {
  static const MechanismKind kind{
      .name = "skyformer",
      .family = "low rank",
      .summary = "kernelized attention through landmarks drawn from the queries and the keys",
      .paper = "Chen et al. 2021, Skyformer: Remodel Self-Attention with Gaussian Kernel and Nystrom Method",
      .parameters = {{"landmarks", std::int64_t{64}, 2, 4096, {}, "half of them queries, half keys (128 in the paper)"},
                     {"gamma", 0.1, 0.0, 1e6, {}, "added to the diagonal of the landmarks' kernel"},
                     {"steps", std::int64_t{6}, 1, 64, {}, "of the iteration for the inverse"},
                     {.name = "redraw",
                      .fallback = std::string("training"),
                      .choices = {"training", "always"},
                      .help = "where landmarks are drawn anew; always: at evaluation too, as published code does",
                      .lawless = true},
                     batch_start()},
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

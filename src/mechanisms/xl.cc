#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/layout.h"
#include "mechanisms/score.h"
#include "mechanisms/tiled.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

enum Weight : std::size_t { kContent, kPosition, kEncoding };

// Sines and cosines of a distance, half of the channels each.
std::int64_t channels_of(const Mechanism& mechanism, std::int64_t width) {
  const std::int64_t given = mechanism.integer("channels"), channels = given == 0 ? width : given;
  if (channels % 2 != 0)
    fail(ErrorCode::usage, "an encoding of " + std::to_string(channels) + " channels", "channels", "an even number");
  return channels;
}

// [1 ... 1 | 0 ... 0] turned to the position of each key: its cosines, then its sines. (b, n_k, kv_heads, channels)
Var encoded_keys(const Call& call, std::int64_t channels, DType wide) {
  const Tensor start =
      Tensor::zeros(call.tape.context(), {call.k.dim(0), call.k.dim(1), call.k.dim(2), channels}, wide);
  start.slice(3, 0, channels / 2).fill(1.0);
  return rotate(call.tape, Var(start), key_positions(call), {.halves = true});
}

// With x = (q + w) W_r = [a | b], x . [sin t | cos t] at distance t = p - j is, frequency by frequency,
// (a sin p + b cos p) cos j + (b sin p - a cos p) sin j: [b | -a] turned by p, against the encoding of the key.
Var encoded_queries(const Call& call, const Var& q, DType wide) {
  Tape& tape = call.tape;
  const Var x = multiply_heads(tape, add(tape, q, call.options.weights[kPosition]), call.options.weights[kEncoding]);
  const std::int64_t channels = x.dim(3), half = channels / 2;
  const std::vector<Var> parts{slice(tape, x, 3, half, channels), scale(tape, slice(tape, x, 3, 0, half), -1.0)};
  return rotate(tape, cast(tape, concat(tape, parts, 3), wide), query_positions(call), {.halves = true});
}

AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  const DType dtype = call.q.dtype(), wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Var q = cast(tape, fill_padding(tape, call.q, call.options.queries), wide);
  const std::vector<Var> queries{add(tape, q, call.options.weights[kContent]), encoded_queries(call, q, wide)};
  const std::vector<Var> keys{call.k,
                              cast(tape, encoded_keys(call, call.options.weights[kEncoding].dim(2), wide), dtype)};
  AttentionOptions options = call.options;
  options.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(call.q.dim(3))));
  const Call extended{tape,
                      cast(tape, concat(tape, queries, 3), dtype),
                      concat(tape, keys, 3),
                      call.v,
                      call.mechanism,
                      options,
                      call.queries,
                      call.keys};
  return run_tiled(extended, {tile::Weight::softmax, Pattern::full()});
}

// (q + w) . (W_r R_t) of one pair, R_t = [sin(t f_m) | cos(t f_m)].
double position_score(const reference::Problem& p, std::int64_t head, std::int64_t i, std::int64_t j) {
  const auto channels = static_cast<std::int64_t>(p.weights[kEncoding].size()) / (p.heads * p.d_k);
  const auto t = static_cast<double>(p.position(i) - j);
  double sum = 0.0;
  for (std::int64_t c = 0; c < p.d_k; ++c) {
    const std::int64_t row = head * p.d_k + c;
    double key = 0.0;
    for (std::int64_t m = 0; m < channels; ++m) {
      const auto pair = static_cast<double>(m % (channels / 2));
      const double angle = t * std::pow(10000.0, -2.0 * pair / static_cast<double>(channels));
      key += p.weights[kEncoding][static_cast<std::size_t>(row * channels + m)] *
             (m < channels / 2 ? std::sin(angle) : std::cos(angle));
    }
    sum += (p.query(i, head)[c] + p.weights[kPosition][static_cast<std::size_t>(row)]) * key;
  }
  return sum;
}

reference::Result define(const reference::Problem& given, const Mechanism&) {
  reference::Problem p = given;
  p.scale = given.scale != 0.0 ? given.scale : 1.0 / std::sqrt(static_cast<double>(given.d_k));
  for (std::size_t i = 0; i < p.q.size(); ++i) p.q[i] += p.weights[kContent][i % p.weights[kContent].size()];
  p.bias = [&given, scale = p.scale](std::int64_t head, std::int64_t i, std::int64_t j) {
    return scale * position_score(given, head, i, j) + (given.bias ? given.bias(head, i, j) : 0.0);
  };
  return reference::pairwise(p, reference::Weights::softmax);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  constexpr double kDeviation = 0.02;
  const std::int64_t channels = channels_of(mechanism, s.heads * s.d_k);
  return {{.name = "content_bias", .shape = {s.heads, s.d_k}, .init = Init::normal(kDeviation), .shared = true},
          {.name = "position_bias", .shape = {s.heads, s.d_k}, .init = Init::normal(kDeviation), .shared = true},
          {"encoding", {s.heads, s.d_k, channels}, Init::xavier(channels, s.heads * s.d_k), true, true}};
}

bool lacks(const Mechanism&, Feature feature) { return feature == Feature::rotary; }

}  // namespace

const MechanismKind& xl_kind() {
  static const MechanismKind kind{
      .name = "xl",
      .family = "score",
      .summary = "softmax whose scores know the distance of a pair: Transformer-XL's relative positions",
      .paper = "Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
      .parameters =
          {{"channels", std::int64_t{0}, 0, 1 << 16, {}, "of the sinusoids; even; 0: heads times head width"}},
      .features = kPairwise,
      .lacks = lacks,
      .subquadratic = false,
      .memory = Memory::cache,
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .first_needed = window_start,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea

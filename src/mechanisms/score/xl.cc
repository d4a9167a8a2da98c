#include <cmath>
#include <map>

#include "mechanisms/compose.h"
#include "mechanisms/positions.h"
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

// [1 ... 1 | 0 ... 0] rotated to the position of each key: its cosines, then its sines. (b, n_k, kv_heads, channels)
Var encoded_keys(const Call& call, std::int64_t channels, DType wide) {
  const Tensor start =
      Tensor::zeros(call.tape.context(), {call.k.dim(0), call.k.dim(1), call.k.dim(2), channels}, wide);
  start.slice(3, 0, channels / 2).fill(1.0);
  return rotate(call.tape, Var(start), key_positions(call), {.halves = true});
}

// [sin(t f_m) | cos(t f_m)] of one distance, (channels, 1).
Tensor encoding_of(const Context& context, std::int64_t t, std::int64_t channels, DType wide) {
  std::vector<double> r(static_cast<std::size_t>(channels));
  for (std::int64_t m = 0; m < channels; ++m) {
    const auto pair = static_cast<double>(m % (channels / 2));
    const double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * pair / static_cast<double>(channels));
    r[static_cast<std::size_t>(m)] = m < channels / 2 ? std::sin(angle) : std::cos(angle);
  }
  return Tensor::from<double>(context, {channels, 1}, r).to(context, wide);
}

// With x = (q + w) W_r = [a | b], x . [sin t | cos t] at distance t = p - j is, frequency by frequency,
// (a sin p + b cos p) cos j + (b sin p - a cos p) sin j: [b | -a] rotated by p, against the encoding of the key.
Var encoded_queries(const Call& call, const Var& x, DType wide) {
  Tape& tape = call.tape;
  const std::int64_t channels = x.dim(3), half = channels / 2;
  const std::vector<Var> parts{slice(tape, x, 3, half, channels), scale(tape, slice(tape, x, 3, 0, half), -1.0)};
  return rotate(tape, cast(tape, concat(tape, parts, 3), wide), query_positions(call), {.halves = true});
}

// What positions add to queries (b, n_q, heads, c) and keys (b, n_k, kv_heads, c) of some pairs.
struct Extension {
  Var queries, keys;
  Pattern pattern;
  bool is_part;  // of a softmax: has its log-sum-exp, and is not rounded
};

AttentionResult run_extended(const Call& call, const Var& content, const Extension& more) {
  Tape& tape = call.tape;
  const DType dtype = call.q.dtype();
  const std::vector<Var> queries{content, more.queries}, keys{call.k, cast(tape, more.keys, dtype)};
  AttentionOptions options = call.options;
  options.scale = scale_of(call);
  options.return_lse = more.is_part || call.options.return_lse;
  return run_tiled({tape, cast(tape, concat(tape, queries, 3), dtype), concat(tape, keys, 3), call.v, call.mechanism,
                    options, call.queries, call.keys},
                   {.weight = tile::Weight::softmax, .pattern = more.pattern, .wide = more.is_part});
}

AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  const std::vector<Var>& weights = call.options.weights;
  const DType wide = wide_type(call.q.dtype());
  const std::int64_t channels = weights[kEncoding].dim(2), clamp = call.mechanism.integer("clamp");
  const Var q = cast(tape, fill_padding(tape, call.q, call.options.queries), wide);
  const Var content = add(tape, q, weights[kContent]);
  const Var x = multiply_heads(tape, add(tape, q, weights[kPosition]), weights[kEncoding]);
  Extension near{encoded_queries(call, x, wide), encoded_keys(call, channels, wide), Pattern::full(), false};
  if (clamp == 0) return run_extended(call, content, near);
  near.pattern = Pattern::window(clamp, -1);
  near.is_part = true;
  // Farther keys all have the encoding of the largest distance: one number of the query, against 1.
  const Tensor ones = Tensor::empty(tape.context(), {call.k.dim(0), call.k.dim(1), call.k.dim(2), 1}, wide);
  ones.fill(1.0);
  const Extension far{matmul(tape, x, Var(encoding_of(tape.context(), clamp, channels, wide))), Var(ones),
                      ~near.pattern, true};
  const AttentionResult a = run_extended(call, content, near), b = run_extended(call, content, far);
  const Partial all = merge(tape, {a.output, a.lse}, {b.output, b.lse});
  return {cast(tape, all.output, call.q.dtype()), call.options.return_lse ? all.lse : Var(), {}};
}

// W_r R_t of every head, (heads, d_k), R_t = [sin(t f_m) | cos(t f_m)].
std::vector<double> position_keys(const reference::Problem& p, std::int64_t distance) {
  const std::size_t rows = static_cast<std::size_t>(p.heads * p.d_k), channels = p.weights[kEncoding].size() / rows;
  std::vector<double> waves, keys(rows, 0.0);
  for (std::size_t m = 0; m < channels; ++m) {
    const auto pair = static_cast<double>(m % (channels / 2));
    const double angle = static_cast<double>(distance) * std::pow(10000.0, -2.0 * pair / static_cast<double>(channels));
    waves.push_back(m < channels / 2 ? std::sin(angle) : std::cos(angle));
  }
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t m = 0; m < channels; ++m) keys[row] += p.weights[kEncoding][row * channels + m] * waves[m];
  return keys;
}

// (q + w) . key of one pair
double position_score(const reference::Problem& p, std::int64_t head, std::int64_t i, const std::vector<double>& keys) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < p.d_k; ++c) {
    const auto row = static_cast<std::size_t>(head * p.d_k + c);
    sum += (p.query(i, head)[c] + p.weights[kPosition][row]) * keys[row];
  }
  return sum;
}

reference::Result define(const reference::Problem& given, const Mechanism& mechanism) {
  const std::int64_t clamp = mechanism.integer("clamp");
  reference::Problem p = given;
  p.scale = scale_of(given);
  for (std::size_t i = 0; i < p.q.size(); ++i) p.q[i] += p.weights[kContent][i % p.weights[kContent].size()];
  std::map<std::int64_t, std::vector<double>> keys;  // by distance: few beside the pairs
  p.bias = [&given, &keys, clamp, scale = p.scale](std::int64_t head, std::int64_t i, std::int64_t j) {
    const std::int64_t t = given.position(i) - j, distance = clamp > 0 ? std::min(t, clamp) : t;
    if (!keys.contains(distance)) keys[distance] = position_keys(given, distance);
    return scale * position_score(given, head, i, keys[distance]) + (given.bias ? given.bias(head, i, j) : 0.0);
  };
  return reference::pairwise(p, reference::Weights::softmax);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  constexpr double kDeviation = 0.02;
  const std::int64_t channels = channels_of(mechanism, s.heads * s.d_k);
  return {{.name = "content_bias",
           .shape = {s.heads, s.d_k},
           .init = Init::normal(kDeviation),
           .shared = true,
           .axes = "heads, d_k",
           .meaning = "u: added to q where it meets keys; before the scale"},
          {.name = "position_bias",
           .shape = {s.heads, s.d_k},
           .init = Init::normal(kDeviation),
           .shared = true,
           .axes = "heads, d_k",
           .meaning = "w: added to q where it meets distances; before the scale"},
          {.name = "encoding",
           .shape = {s.heads, s.d_k, channels},
           .init = Init::xavier(channels, s.heads * s.d_k),
           .decay = true,
           .axes = "heads, d_k, channels",
           .meaning = "W_r: makes a key of the sines, then cosines, of a distance; channels=0: heads d_k of them"}};
}

// Near and far keys of a clamped call run apart, each with its own dropout.
bool lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::rotary || (feature == Feature::dropout && mechanism.integer("clamp") > 0);
}

}  // namespace

const MechanismKind& xl_kind() {
  static const MechanismKind kind{
      .name = "xl",
      .family = "score",
      .summary = "softmax whose scores know the distance of a pair: Transformer-XL's relative positions",
      .paper = "Dai et al. 2019, Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
      .parameters = {{"channels", std::int64_t{0}, 0, 1 << 16, {}, "of the sinusoids; even; 0: heads times head width"},
                     {"clamp",
                      std::int64_t{0},
                      0,
                      1 << 30,
                      {},
                      "keys that are farther back count as this far; 0: all distances"}},
      .features = kPairwise,
      .lacks = lacks,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea

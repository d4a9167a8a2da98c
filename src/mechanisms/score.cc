#include "mechanisms/score.h"

#include <cmath>

#include "core/visit_device.h"
#include "mechanisms/compose.h"
#include "mechanisms/score_kernels.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

enum class Score : std::uint8_t { scaled_dot, dot, bilinear, cosine };

constexpr ScoreKind kScores[] = {
    // in the order of Score
    {"scaled-dot", "q . k / sqrt(d)"},
    {"dot", "q . k"},
    {"bilinear", "q W k with a learned matrix W for every head"},
    {"cosine", "a learned temperature of the head times the cosine of q and k"},
};

constexpr double kLogCap = 4.605170185988092;    // ln 100, of the log of a temperature
constexpr double kLogStart = 2.302585092994046;  // ln 10
constexpr double kShortest = 1e-24;              // square of a length that counts as none

Score score_of(const Mechanism& mechanism) {
  for (const ParameterSpec& spec : mechanism.parameters()) {
    if (spec.name != "score") continue;
    const std::string& score = mechanism.choice("score");
    for (std::size_t i = 0; i < std::size(kScores); ++i)
      if (kScores[i].name == score) return static_cast<Score>(i);
  }
  return Score::scaled_dot;
}

// saved: the log temperatures (heads), the output (heads, d).
void temperature_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& log = node.saved[0];
  const kernels::TemperatureVjp io{log, node.saved[1], node.grad().contiguous(context),
                                   Tensor::empty(context, log.shape(), log.dtype()), kLogCap};
  visit_device(context, io, [&]<Device D>() { kernels::temperature_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.d_log);
}

constexpr Op kTemperature{"temperature", temperature_backward};

// exp(min(log, ln 100)) of every head, for each of its channels: (heads) -> (heads, d).
Var temperature(Tape& tape, const Var& log, std::int64_t width) {
  const Context& context = tape.context();
  const kernels::Temperature io{log.value().contiguous(context),
                                Tensor::empty(context, {log.dim(0), width}, log.dtype()), kLogCap};
  visit_device(context, io, [&]<Device D>() { kernels::temperature<D>(context, io); });
  return tape.record(kTemperature, {log}, io.out, {io.log, io.out});
}

// Rows of length sqrt(d), in the wide type.
Var unit_rows(Tape& tape, const Var& x, DType wide) {
  return normalize(tape, cast(tape, x, wide),
                   {.kind = NormKind::rms, .eps = kShortest / static_cast<double>(x.dim(3))});
}

void make_unit(double* row, std::int64_t width) {
  double squares = kShortest;
  for (std::int64_t c = 0; c < width; ++c) squares += row[c] * row[c];
  for (std::int64_t c = 0; c < width; ++c) row[c] /= std::sqrt(squares);
}

}  // namespace

std::span<const ScoreKind> score_kinds() { return kScores; }

ParameterSpec score_parameter() {
  std::vector<std::string_view> names;
  for (const ScoreKind& kind : kScores) names.push_back(kind.name);
  return {.name = "score",
          .fallback = std::string("scaled-dot"),
          .low = 0,
          .high = 0,
          .choices = std::move(names),
          .help = "of a pair: q.k / sqrt(d), q.k, q W k (W learned), or a learned temperature times the cosine",
          .shared = true};
}

std::vector<WeightSpec> score_weights(const Mechanism& mechanism, const LayerSizes& s) {
  switch (score_of(mechanism)) {
    // Scores of unit deviation to begin with, as scaled-dot has.
    case Score::bilinear:
      return {{.name = "score",
               .shape = {s.heads, s.d_k, s.d_k},
               .init = Init::normal(1.0 / static_cast<double>(s.d_k)),
               .decay = true,
               .axes = "heads, d_k, d_k",
               .meaning = "W of q W k"}};
    case Score::cosine:
      return {{.name = "temperature",
               .shape = {s.heads},
               .init = Init::constant(kLogStart),
               .axes = "heads",
               .meaning = "logarithm of what the cosine is multiplied with, at most ln 100"}};
    default: return {};
  }
}

// The step form rotates queries before they meet W.
bool is_scaled_dot(const Mechanism& mechanism) { return score_of(mechanism) == Score::scaled_dot; }

bool score_lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::rotary && score_of(mechanism) == Score::bilinear;
}

Scored scored(const Call& call) {
  Tape& tape = call.tape;
  const DType wide = wide_type(call.q.dtype());
  const double d = static_cast<double>(call.q.dim(3)), scale = call.options.scale.value_or(1.0);
  const Score score = score_of(call.mechanism);
  if (score == Score::scaled_dot) return {call.q, call.k, call.options.scale.value_or(1.0 / std::sqrt(d))};
  if (score == Score::dot) return {call.q, call.k, scale};
  const Var q = fill_padding(tape, call.q, call.options.queries);
  if (score == Score::bilinear) {
    return {multiply_heads(tape, cast(tape, q, wide), call.options.weights[0]), call.k, scale};
  }
  const Var hot = mul(tape, unit_rows(tape, q, wide), temperature(tape, call.options.weights[0], q.dim(3)));
  const Var k = unit_rows(tape, fill_padding(tape, call.k, key_sequences(call)), wide);
  return {hot, k, scale / d};
}

reference::Problem scored(const reference::Problem& given, const Mechanism& mechanism) {
  const Score score = score_of(mechanism);
  reference::Problem p = given;
  if (score == Score::scaled_dot) return p;
  if (given.scale == 0.0) p.scale = 1.0;
  const std::int64_t d = p.d_k;
  for (std::int64_t row = 0; row < p.n_q * p.heads; ++row) {
    double* q = &p.q[static_cast<std::size_t>(row * d)];
    const std::int64_t head = row % p.heads;
    if (score == Score::cosine) {
      make_unit(q, d);
      for (std::int64_t c = 0; c < d; ++c)
        q[c] *= std::exp(std::fmin(p.weights[0][static_cast<std::size_t>(head)], std::log(100.0)));
    }
    if (score == Score::bilinear) {
      const double* from = &given.q[static_cast<std::size_t>(row * d)];
      for (std::int64_t c = 0; c < d; ++c) {
        q[c] = 0.0;
        for (std::int64_t a = 0; a < d; ++a)
          q[c] += from[a] * p.weights[0][static_cast<std::size_t>((head * d + a) * d + c)];
      }
    }
  }
  for (std::int64_t row = 0; score == Score::cosine && row < p.n_k * p.kv_heads; ++row)
    make_unit(&p.k[static_cast<std::size_t>(row * d)], d);
  return p;
}

}  // namespace fovea

#include "conformance/honest.h"

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "core/rng.h"
#include "core/wide.h"

namespace fovea::conformance {
namespace {

double norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x)
    if (std::isfinite(value)) sum += value * value;
  return std::sqrt(sum);
}

// A leaf times 1 + size or 1 - size, entry by entry.
class Noise {
 public:
  Noise(Context& context, double size, std::uint64_t seed) : context_(context), size_(size), random_(seed, 11) {}

  Var operator()(const Var& x, bool moves = true) {
    if (!x.defined() || !moves) return x;
    const Tensor copy = x.value().clone(context_);
    edit(copy, [&](double value, std::size_t) { return moved(value, size_, random_); });
    return x.needs_grad() ? Var::leaf(copy) : Var(copy);
  }

 private:
  Context& context_;
  double size_;
  Random random_;
};

Gradients moved_gradients(const ExactCall& call, const Roundings& roundings, const Pull& pull) {
  Noise noise(call.context, pull.noise, pull.seed);
  const bool scores = roundings.scores;
  const Inputs& in = call.inputs;
  Inputs inputs{noise(in.q, scores), noise(in.k, scores), noise(in.v, roundings.values), noise(in.input, scores), {}};
  for (const Var& w : in.weights) inputs.weights.push_back(noise(w, scores));
  Trial trial = call.trial;
  trial.options.bias = noise(trial.options.bias, scores);
  trial.options.diagonal_bias = noise(trial.options.diagonal_bias, scores);
  trial.options.initial_state = noise(trial.options.initial_state);
  return gradients(call.context, inputs, call.mechanism, trial, pull);
}

// ||output|| / (root mean square of the leaf): the gradient, if the output followed it.
std::vector<double> natural_sizes(const ExactCall& call) {
  Tape tape(call.context, {.record = false, .training = call.trial.training});
  const double output =
      norm(run(call.context, tape, call.inputs, call.mechanism, call.trial).output.value().to_vector<double>());
  std::vector<double> sizes;
  const auto add = [&](const Var& leaf) {
    const std::vector<double> values = leaf.defined() ? leaf.value().to_vector<double>() : std::vector<double>();
    sizes.push_back(output /
                    std::fmax(norm(values) / std::sqrt(std::fmax(1.0, static_cast<double>(values.size()))), 1e-3));
  };
  const AttentionOptions& o = call.trial.options;
  for (const Var& leaf :
       {call.inputs.q, call.inputs.k, call.inputs.v, o.bias, o.diagonal_bias, o.initial_state, call.inputs.input})
    add(leaf);
  for (const Var& w : call.inputs.weights) add(w);
  return sizes;
}

}  // namespace

std::vector<NamedGradient> named(const Gradients& g) {
  std::vector<NamedGradient> all{{"dq", &g.q},
                                 {"dk", &g.k},
                                 {"dv", &g.v},
                                 {"d_bias", &g.bias},
                                 {"d_diagonal_bias", &g.diagonals},
                                 {"d_initial_state", &g.initial_state},
                                 {"d_input", &g.input}};
  for (std::size_t w = 0; w < g.weights.size(); ++w) all.push_back({"d_weight " + std::to_string(w), &g.weights[w]});
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return NAN;
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

std::vector<double> honest_errors(const ExactCall& call, const Roundings& roundings, int draws) {
  const double unit = rounding_of(roundings.dtype), last_bit = rounding_of(DType::f64),
               wide = rounding_of(wide_type(roundings.dtype));
  const std::vector<NamedGradient> want = named(call.gradients);
  std::vector<double> errors(want.size(), 0.0);
  const auto note = [&](const Roundings& moving, const Pull& pull, double scale) {
    const Gradients now = moved_gradients(call, moving, pull);
    const std::vector<NamedGradient> got = named(now);
    for (std::size_t p = 0; p < want.size(); ++p)
      if (!want[p].values->empty()) errors[p] = std::fmax(errors[p], scale * distance(*got[p].values, *want[p].values));
  };
  const Trial& t = call.trial;
  const double keys = std::sqrt(static_cast<double>(std::max<std::int64_t>(t.n_k, 1)));
  const Isa isa = chosen_isa();
  for (int draw = 0; draw < draws; ++draw) {
    const auto seed = static_cast<std::uint64_t>(draw + 1);
    force_isa(draw % 2 == 0 ? Isa::portable : isa);
    note({roundings.dtype}, {roundings.dtype, last_bit, seed}, wide / last_bit);
    force_isa(isa);
    note(roundings, {roundings.dtype, unit, seed, roundings.weights ? unit / keys : 0.0}, 1.0);
  }
  const std::vector<double> natural = natural_sizes(call);
  const double sums =
      wide * std::sqrt(static_cast<double>(std::max({t.n_q * t.heads / t.kv_heads, t.n_k, t.d_k, t.d_v})));
  for (std::size_t p = 0; p < want.size(); ++p) {
    const double size = norm(*want[p].values),
                 least = least_of(roundings.dtype) * keys * std::sqrt(static_cast<double>(want[p].values->size()));
    errors[p] += (unit + sums) * size + sums * natural[p] + least;
  }
  return errors;
}

}  // namespace fovea::conformance

#include <cmath>
#include <map>
#include <tuple>

#include "conformance/honest.h"
#include "conformance/suite.h"
#include "core/rng.h"

// U2: gradients against central differences in double; lower precisions against double.
namespace fovea::conformance {
namespace {

class Gradient : public Law {
 protected:
  // d objective / d leaf along a direction, by central differences.
  double difference(const Inputs& inputs, const Trial& trial, const Var& leaf, const std::vector<double>& direction,
                    double step) {
    const std::vector<double> start = leaf.value().to_vector<double>();
    double values[2];
    for (int side = 0; side < 2; ++side) {
      edit(leaf.value(), [&](double, std::size_t i) { return start[i] + (side == 0 ? step : -step) * direction[i]; });
      values[side] = objective(context_, inputs, mechanism(), trial);
    }
    edit(leaf.value(), [&](double, std::size_t i) { return start[i]; });
    return (values[0] - values[1]) / (2.0 * step);
  }

  // Several random directions of one leaf: a wrong entry shows in every one of them.
  void check_leaf(const Inputs& inputs, const Trial& trial, const Var& leaf, const std::vector<double>& gradient) {
    ASSERT_EQ(static_cast<std::int64_t>(gradient.size()), leaf.value().numel());
    Random random(31);
    for (int attempt = 0; attempt < 3; ++attempt) {
      std::vector<double> direction(gradient.size());
      double analytic = 0.0, size = 0.0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        direction[i] = random.normal();
        analytic += direction[i] * gradient[i];
        size += gradient[i] * gradient[i];
      }
      const double scale = std::fmax(std::sqrt(size), 1e-2);
      const double numeric = difference(inputs, trial, leaf, direction, 1e-5);
      if (std::abs(analytic - numeric) < 1e-6 * scale) continue;
      // A kink or a choice between the two points spoils a difference; there is hardly one in a small part of the way.
      const bool chooses = mechanism().kind().chooses;
      EXPECT_NEAR(analytic, difference(inputs, trial, leaf, direction, chooses ? 1e-8 : 1e-7),
                  (chooses ? 1e-4 : 1e-5) * scale);
    }
  }

  // The same numbers in double.
  static Var wide(const Context& context, const Var& x) {
    if (!x.defined()) return x;
    const Tensor value = x.value().to(context, DType::f64);
    return x.needs_grad() ? Var::leaf(value) : Var(value);
  }
  static Inputs wide(const Context& context, const Inputs& inputs) {
    Inputs doubles = inputs.with([&](const Var& x) { return wide(context, x); });
    for (Var& w : doubles.weights) w = wide(context, w);
    return doubles;
  }

  Roundings roundings(DType dtype) const {
    return {.dtype = dtype,
            .scores = !mechanism().kind().chooses,
            .weights = dtype == DType::bf16 && GetParam().isa == Isa::avx512_bf16};
  }

  // Twice what an honest computation loses, for each gradient: measured once for the instruction sets that round alike.
  std::vector<double>& allowed(const ExactCall& call, const Roundings& roundings, const std::string& name, int draws) {
    static std::map<std::tuple<std::string, std::string, DType, bool>, std::vector<double>> known;
    std::vector<double>& bounds = known[{call.mechanism.text(), name, roundings.dtype, roundings.weights}];
    if (bounds.empty() || draws > kDraws) {
      bounds = honest_errors(call, roundings, draws);
      for (double& bound : bounds) bound *= 2.0;
    }
    return bounds;
  }

  void check(const ExactCall& call, const Gradients& got, const Roundings& roundings, const std::string& name) {
    const std::vector<NamedGradient> a = named(got), b = named(call.gradients);
    ASSERT_EQ(a.size(), b.size());
    const auto misses = [&](const std::vector<double>& bounds) {
      for (std::size_t p = 0; p < b.size(); ++p)
        if (!(distance(*a[p].values, *b[p].values) <= bounds[p])) return true;
      return false;
    };
    if (!misses(allowed(call, roundings, name, kDraws))) return;
    const std::vector<double>& bounds = allowed(call, roundings, name, kMoreDraws);  // a kink may lie where few look
    for (std::size_t p = 0; p < b.size(); ++p) EXPECT_LE(distance(*a[p].values, *b[p].values), bounds[p]) << b[p].name;
  }

  void check_low_precision(DType dtype) {
    for (const OptionCase& option : option_cases()) {
      if (!supports(mechanism(), option.needs)) continue;
      if (chooses_anew(mechanism(), option, dtype)) continue;
      SCOPED_TRACE(option.name);
      const Trial low = make_trial(context_, option, mechanism(), dtype);
      const Inputs inputs = random_inputs(context_, mechanism(), low, dtype, 3), doubles = wide(context_, inputs);
      Trial exact = low;
      exact.options.bias = wide(context_, low.options.bias);
      exact.options.diagonal_bias = wide(context_, low.options.diagonal_bias);
      exact.options.initial_state = wide(context_, low.options.initial_state);
      const Gradients want = gradients(context_, doubles, mechanism(), exact, {dtype});
      check({context_, doubles, mechanism(), exact, want}, gradients(context_, inputs, mechanism(), low),
            roundings(dtype), option.name);
    }
  }

  static constexpr int kDraws = 2, kMoreDraws = 30;
};

TEST_P(Gradient, MatchesDifferences) {
  for (const OptionCase& option : option_cases()) {
    if (!supports(mechanism(), option.needs)) continue;
    SCOPED_TRACE(option.name);
    const Trial trial = make_trial(context_, option, mechanism(), DType::f64);
    const Inputs inputs = random_inputs(context_, mechanism(), trial, DType::f64, 3);
    const Gradients g = gradients(context_, inputs, mechanism(), trial);
    check_leaf(inputs, trial, inputs.q, g.q);
    const MechanismKind& kind = mechanism().kind();
    if (kind.stops_gradient == nullptr || !kind.stops_gradient(mechanism())) {
      check_leaf(inputs, trial, inputs.k, g.k);
      check_leaf(inputs, trial, inputs.v, g.v);
    }
    if (inputs.input.defined()) check_leaf(inputs, trial, inputs.input, g.input);
    for (std::size_t w = 0; w < inputs.weights.size(); ++w)
      if (inputs.weights[w].needs_grad()) check_leaf(inputs, trial, inputs.weights[w], g.weights[w]);
    if (trial.options.bias.defined()) check_leaf(inputs, trial, trial.options.bias, g.bias);
    if (trial.options.diagonal_bias.defined()) check_leaf(inputs, trial, trial.options.diagonal_bias, g.diagonals);
    if (trial.options.initial_state.defined()) check_leaf(inputs, trial, trial.options.initial_state, g.initial_state);
  }
}

TEST_P(Gradient, Float) { check_low_precision(DType::f32); }
TEST_P(Gradient, Half) { check_low_precision(DType::f16); }

FOVEA_LAWS(Gradient);

class GradientBfloat16 : public Gradient {};

TEST_P(GradientBfloat16, Rounded) { check_low_precision(DType::bf16); }

// Values that hardly differ: dO . V and dO . O nearly cancel in the gradients of q and k, so that O must be known
// better than it is given out. An honest computation takes v as it is, and its sums are wide: what it loses is what
// roundings of everything else move. Gradients of weights are sums over all rows, whose terms cancel once more.
TEST_P(GradientBfloat16, NearlyConstantRows) {
  if (mechanism().kind().chooses) return;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    Trial trial = usual_trial(mechanism());
    trial.batch = 1;
    trial.n_q = trial.n_k = 40;
    const Inputs inputs = random_inputs(context_, mechanism(), trial, dtype, 3);
    const Tensor v = inputs.v.value();
    edit(v, [&](double x, std::size_t i) {
      return 1.0 + 0.02 * x + 0.1 * static_cast<double>(static_cast<std::int64_t>(i) % v.dim(3));
    });
    const Inputs doubles = wide(context_, inputs);
    Roundings as_given = roundings(dtype);
    // Memories of earlier segments, pooled or not, are numbers of the type.
    as_given.values = mechanism().kind().stops_gradient != nullptr;
    const Gradients want = gradients(context_, doubles, mechanism(), trial, {dtype});
    const auto of_scores = [](const Gradients& all) { return Gradients{all.q, all.k, {}, {}, {}, {}, {}, {}}; };
    const Gradients of_q_and_k = of_scores(want);
    check({context_, doubles, mechanism(), trial, of_q_and_k},
          of_scores(gradients(context_, inputs, mechanism(), trial)), as_given, "nearly constant");
  }
}

FOVEA_BFLOAT16_LAWS(GradientBfloat16);

}  // namespace
}  // namespace fovea::conformance

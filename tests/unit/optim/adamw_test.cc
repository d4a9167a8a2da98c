#include <gtest/gtest.h>

#include <cmath>

#include "core/isa.h"
#include "support/expect_error.h"
#include "unit/optim/parameters.h"

namespace fovea::testing {
namespace {

// The definition, one number at a time.
struct Plain {
  AdamWOptions options;
  double value, first = 0.0, second = 0.0;

  void step(double g, double rate, int t, bool decay) {
    if (decay && !options.decoupled) g += options.weight_decay * value;
    first = options.beta1 * first + (1 - options.beta1) * g;
    second = options.beta2 * second + (1 - options.beta2) * g * g;
    const double m = first / (1 - std::pow(options.beta1, t)), v = second / (1 - std::pow(options.beta2, t));
    if (decay && options.decoupled) value -= rate * options.weight_decay * value;
    value -= rate * m / (std::sqrt(v) + options.eps);
  }
};

TEST(AdamW, FirstStepHasEpsOutsideTheRoot) {
  Context context = poisoned();
  const Parameter p = parameter<double>(context, "w", {0.0});
  AdamW adamw(context, {p}, {.eps = 1e-8});
  give_gradient<double>(context, p, {1e-4});
  adamw.step(0.5);
  EXPECT_NEAR(p.var.value().item(), -0.5 * 0.9999, 1e-7);  // sqrt(v + eps) would give 0.7071
}

template <class T>
void compare_with_plain(double tolerance, bool decoupled) {
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    Context context = poisoned();
    const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6, .weight_decay = 0.1, .decoupled = decoupled};
    // Longer than a piece, odd, and tiny.
    const std::vector<std::size_t> sizes = {40001, 1, 17};
    std::vector<Parameter> parameters;
    std::vector<std::vector<Plain>> plain;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto start = draws<T>(i, sizes[i]);
      parameters.push_back(parameter<T>(context, "p" + std::to_string(i), start, i == 0));
      plain.emplace_back();
      for (const T v : start) plain.back().push_back({options, static_cast<double>(v)});
    }
    AdamW adamw(context, parameters, options);
    for (int t = 1; t <= 4; ++t) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto grad = draws<T>(100 * static_cast<std::uint64_t>(t) + i, sizes[i]);
        give_gradient<T>(context, parameters[i], grad);
        for (std::size_t j = 0; j < sizes[i]; ++j) plain[i][j].step(static_cast<double>(grad[j]), 0.01, t, i == 0);
      }
      adamw.step(0.01);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto values = parameters[i].var.value().to_vector<double>();
      for (std::size_t j = 0; j < sizes[i]; ++j) ASSERT_NEAR(values[j], plain[i][j].value, tolerance) << i << " " << j;
    }
  }
  force_isa(available_isas().back());
}

TEST(AdamW, EqualsThePlainDefinitionInDouble) { compare_with_plain<double>(1e-13, true); }
TEST(AdamW, EqualsThePlainDefinitionInFloat) { compare_with_plain<float>(2e-6, true); }
TEST(AdamW, EqualsThePlainAdamInDouble) { compare_with_plain<double>(1e-13, false); }
TEST(AdamW, EqualsThePlainAdamInFloat) { compare_with_plain<float>(2e-6, false); }

// The first step of Adam is the rate in the direction of gradient plus decay, whatever the size of the decay; AdamW's
// decay takes its own share.
TEST(AdamW, DecaysApartFromTheGradientOrInIt) {
  for (const bool decoupled : {true, false})
    for (const double decay : {0.1, 0.4}) {
      Context context = poisoned();
      const Parameter p = parameter<double>(context, "w", {2.0}, true);
      AdamW adam(context, {p}, {.eps = 1e-12, .weight_decay = decay, .decoupled = decoupled});
      give_gradient<double>(context, p, {-0.1});
      adam.step(0.01);
      EXPECT_NEAR(p.var.value().item(), decoupled ? 2.0 * (1 - 0.01 * decay) + 0.01 : 2.0 - 0.01, 1e-9);
    }
}

TEST(AdamW, LeavesParametersWithoutGradientAloneAndForgetsGradients) {
  Context context = poisoned();
  const Parameter a = parameter<float>(context, "a", {1.0f, 2.0f}, true), b = parameter<float>(context, "b", {3.0f});
  AdamW adamw(context, {a, b}, {.weight_decay = 0.5});
  give_gradient<float>(context, b, {1.0f});
  adamw.step(0.1);
  EXPECT_EQ(a.var.value().to_vector<float>(), (std::vector<float>{1.0f, 2.0f}));
  EXPECT_NE(b.var.value().item(), 3.0);
  EXPECT_FALSE(b.var.grad().defined());
}

TEST(AdamW, GivesTheSameBitsAtAnyThreadCount) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    Context context = poisoned(threads);
    const Parameter p = parameter<float>(context, "p", draws<float>(0, 70001), true);
    AdamW adamw(context, {p}, {.weight_decay = 0.01});
    for (std::uint64_t t = 1; t <= 3; ++t) {
      give_gradient<float>(context, p, draws<float>(t, 70001));
      clip_norm(context, adamw.parameters(), 1.0);
      adamw.step(0.01);
    }
    results.push_back(p.var.value().to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(AdamW, RefusesParametersItCannotUpdate) {
  Context context = poisoned();
  const Parameter half{"h", Var::leaf(Tensor::zeros(context, {3}, DType::bf16, Lifetime::persistent)), false};
  EXPECT_THROW(AdamW(context, {half}), Error);
}

TEST(Clip, NormScalesAllGradientsTogether) {
  Context context = poisoned();
  const Parameter a = parameter<float>(context, "a", {0.0f}), b = parameter<float>(context, "b", {0.0f, 0.0f});
  const std::vector<Parameter> both = {a, b};
  give_gradient<float>(context, a, {3.0f});
  give_gradient<float>(context, b, {0.0f, 4.0f});
  EXPECT_DOUBLE_EQ(clip_norm(context, both, 10.0).item(), 5.0);
  EXPECT_FLOAT_EQ(a.var.grad().to_vector<float>()[0], 3.0f);  // below the limit: untouched
  EXPECT_DOUBLE_EQ(clip_norm(context, both, 1.0).item(), 5.0);
  EXPECT_FLOAT_EQ(a.var.grad().to_vector<float>()[0], 0.6f);
  EXPECT_FLOAT_EQ(b.var.grad().to_vector<float>()[1], 0.8f);
  EXPECT_NEAR(clip_norm(context, both, 0.0).item(), 1.0, 1e-7);  // 0: only measured
}

TEST(Clip, NormTellsOfGradientsThatAreNotFinite) {
  Context context = poisoned();
  const Parameter a = parameter<float>(context, "a", {0.0f});
  give_gradient<float>(context, a, {std::nanf("")});
  EXPECT_FALSE(std::isfinite(clip_norm(context, std::vector{a}, 1.0).item()));
  give_gradient<float>(context, a, {INFINITY});
  EXPECT_FALSE(std::isfinite(clip_norm(context, std::vector{a}, 1.0).item()));
}

TEST(Clip, ValueLimitsEveryEntry) {
  Context context = poisoned();
  const Parameter a = parameter<float>(context, "a", {0.0f, 0.0f, 0.0f});
  give_gradient<float>(context, a, {-7.0f, 0.5f, 2.0f});
  clip_value(context, std::vector{a}, 0.0);
  EXPECT_EQ(a.var.grad().to_vector<float>(), (std::vector<float>{-7.0f, 0.5f, 2.0f}));
  clip_value(context, std::vector{a}, 1.0);
  EXPECT_EQ(a.var.grad().to_vector<float>(), (std::vector<float>{-1.0f, 0.5f, 1.0f}));
}

TEST(Clip, NoParametersHaveNormZero) {
  Context context = poisoned();
  EXPECT_EQ(clip_norm(context, {}, 1.0).item(), 0.0);
}

// Parts at rates of their own move as if each had an optimiser of its own with that rate.
TEST(AdamW, PartsMoveAtRatesOfTheirOwn) {
  Context context = poisoned();
  const std::vector<double> start = {1.0, -2.0}, gradient = {0.3, -0.1};
  const std::vector<std::pair<std::string, double>> expected = {
      {"layers.0.weight", 0.01}, {"classifier.out.weight", 0.1}, {"classifiers", 0.01}, {"embedding", 0.0}};
  std::vector<Parameter> together;
  for (const auto& [name, rate] : expected) together.push_back(parameter<double>(context, name, start, true));
  AdamW adamw(context, together, {.weight_decay = 0.1, .rates = {"classifier=10", "embedding=0"}});
  EXPECT_EQ(adamw.rates(), 3u);
  for (int step = 0; step < 3; ++step) {
    for (const Parameter& p : together) give_gradient<double>(context, p, gradient);
    adamw.step(0.01);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Parameter alone = parameter<double>(context, "alone", start, true);
    AdamW one(context, {alone}, {.weight_decay = 0.1});
    for (int step = 0; step < 3; ++step) {
      give_gradient<double>(context, alone, gradient);
      one.step(expected[i].second);
    }
    const std::vector<double> moved = together[i].var.value().to_vector<double>();
    const std::vector<double> wanted = alone.var.value().to_vector<double>();
    for (std::size_t j = 0; j < moved.size(); ++j) EXPECT_NEAR(moved[j], wanted[j], 1e-14) << expected[i].first;
  }
  for (const char* bad : {"classifier", "=2", "a=", "a=x", "a=-1"})
    EXPECT_ERROR(parse_rate(bad), ErrorCode::usage, "PART=FACTOR", "rates", "classifier=10");
}

}  // namespace
}  // namespace fovea::testing

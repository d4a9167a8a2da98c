// Weight policies alone: what they give at the edges, and their derivatives by differences.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "policy/alibi.h"
#include "policy/dropout.h"
#include "policy/pointwise_weight.h"
#include "policy/softmax.h"

namespace fovea {
namespace {

// Weights of one row by the policy's own steps, one score at a time, each a new "tile".
struct Row {
  double top = Softmax::kFloor<double>, sum = 0;
  void see(double score) {
    const double before = top;
    top = math::larger(score, top);
    sum = sum * Softmax::fold(before, top) + Softmax::weigh(score, top);
  }
  double statistic() const { return Softmax::statistic(top, sum); }
};

TEST(SoftmaxPolicy, CollectsTheLogSumExp) {
  const std::vector<double> scores{0.3, -2.0, 5.0, 4.9, -700.0};
  Row row;
  double want = 0;
  for (double s : scores) {
    row.see(s * Softmax::kUnit<double>);
    want += std::exp(s);
  }
  EXPECT_NEAR(row.statistic(), std::log(want), 1e-14);
  double total = 0;
  for (double s : scores) total += Softmax::again(s * Softmax::kUnit<double>, Softmax::reopen(row.statistic()));
  EXPECT_NEAR(total, 1.0, 1e-13);
}

TEST(SoftmaxPolicy, EmptyRowsAreHarmless) {
  Row row;
  for (int i = 0; i < 3; ++i) row.see(-math::kInfinity<double>);
  EXPECT_EQ(row.sum, 0.0);
  EXPECT_EQ(Softmax::close(row.sum), 0.0);
  EXPECT_EQ(row.statistic(), -math::kInfinity<double>);
  const double reopened = Softmax::reopen(row.statistic());
  EXPECT_EQ(Softmax::again(3.0, reopened), 0.0);
  EXPECT_EQ(Softmax::again(-math::kInfinity<double>, reopened), 0.0);
  row.see(1.5 * Softmax::kUnit<double>);  // the first key after masked ones
  EXPECT_NEAR(row.statistic(), 1.5, 1e-15);
}

TEST(SoftmaxPolicy, HiddenPairsHaveNoVjp) { EXPECT_EQ(Softmax::vjp(0.0, 0.0, std::nan(""), 1.0), 0.0); }

TEST(SoftmaxPolicy, VjpIsTheDerivative) {
  const std::vector<double> scores{0.3, -1.0, 2.0}, grads{0.7, -0.2, 0.4};
  const auto loss = [&](std::vector<double> s) {
    double sum = 0, value = 0;
    for (double x : s) sum += std::exp(x);
    for (std::size_t i = 0; i < s.size(); ++i) value += grads[i] * std::exp(s[i]) / sum;
    return value + 0.9 * std::log(sum);
  };
  double sum = 0, delta = -0.9;
  for (double x : scores) sum += std::exp(x);
  for (std::size_t i = 0; i < 3; ++i) delta += grads[i] * std::exp(scores[i]) / sum;
  for (std::size_t i = 0; i < 3; ++i) {
    auto up = scores, down = scores;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    const double weight = std::exp(scores[i]) / sum;
    EXPECT_NEAR(Softmax::vjp(scores[i], weight, grads[i], delta), (loss(up) - loss(down)) / 2e-6, 1e-9);
  }
}

TEST(SelfAdjustPolicy, WeighsByTheNaturalScore) {
  const double score = -1.5 * SelfAdjust::kUnit<double>, lse = SelfAdjust::reopen(0.25);
  const double share = SelfAdjust::again(score, lse);
  EXPECT_NEAR(share, std::exp(-1.75), 1e-15);
  EXPECT_NEAR(SelfAdjust::weight(score, share), -1.5 * std::exp(-1.75), 1e-15);
  EXPECT_EQ(SelfAdjust::weight(-math::kInfinity<double>, 0.0), 0.0);
  EXPECT_EQ(SelfAdjust::vjp(-math::kInfinity<double>, 0.0, std::nan(""), 1.0), 0.0);
}

TEST(SelfAdjustPolicy, VjpIsTheDerivative) {
  const std::vector<double> scores{0.3, -1.0, 2.0}, grads{0.7, -0.2, 0.4};
  const auto loss = [&](std::vector<double> s) {
    double sum = 0, value = 0;
    for (double x : s) sum += std::exp(x);
    for (std::size_t i = 0; i < s.size(); ++i) value += grads[i] * s[i] * std::exp(s[i]) / sum;
    return value;
  };
  double sum = 0;
  for (double x : scores) sum += std::exp(x);
  for (std::size_t i = 0; i < 3; ++i) {
    auto up = scores, down = scores;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    const double share = std::exp(scores[i]) / sum, score = scores[i] * SelfAdjust::kUnit<double>;
    EXPECT_NEAR(SelfAdjust::vjp(score, share, grads[i], loss(scores)), (loss(up) - loss(down)) / 2e-6, 1e-9);
  }
}

// What every pointwise weight owes: its definition in both precisions, its derivative, nothing from a masked pair, and
// a NaN from a NaN.
template <class W>
void check_pointwise(const W& policy, double (*define)(double)) {
  for (double s = -6.0; s <= 6.0; s += 0.37) {
    const double unit = W::template kUnit<double>, weight = policy.weigh(s * unit);
    EXPECT_NEAR(weight, define(s), 1e-13 * (1 + std::fabs(define(s))));
    const double single = policy.weigh(static_cast<float>(s) * W::template kUnit<float>);
    EXPECT_NEAR(single, define(static_cast<float>(s)), 3e-6 * (1 + std::fabs(define(s))));
    const double slope = (define(s + 1e-6) - define(s - 1e-6)) / 2e-6;
    EXPECT_NEAR(policy.vjp(s * unit, weight, 0.5), 0.5 * slope, 1e-6 * (1 + std::fabs(slope)));
  }
  constexpr float kHidden = -math::kInfinity<float>;
  EXPECT_EQ(policy.weigh(kHidden), 0.0f);
  EXPECT_EQ(policy.vjp(kHidden, 0.0f, std::nanf("")), 0.0f);
  EXPECT_EQ(policy.weigh(-math::kInfinity<double>), 0.0);
  EXPECT_EQ(policy.vjp(-math::kInfinity<double>, 0.0, std::nan("")), 0.0);
  EXPECT_TRUE(std::isnan(policy.weigh(std::nanf(""))));
}

TEST(PointwisePolicies, KeepTheirPromises) {
  check_pointwise(Rela(), [](double s) { return s > 0 ? s : 0.0; });
  check_pointwise(Relu2(), [](double s) { return s > 0 ? s * s : 0.0; });
  check_pointwise(SigmoidWeight{-1.25}, [](double s) { return 1 / (1 + std::exp(1.25 - s)); });
  check_pointwise(ExponentialWeight(), [](double s) { return std::exp(s); });
  check_pointwise(PolynomialWeight::power(2), [](double s) { return s * s; });
  check_pointwise(PolynomialWeight::power(4), [](double s) { return s * s * s * s; });
  check_pointwise(PolynomialWeight::taylor(2), [](double s) { return 1 + s + s * s / 2; });
  check_pointwise(PolynomialWeight::taylor(4),
                  [](double s) { return 1 + s + s * s / 2 + s * s * s / 6 + s * s * s * s / 24; });
}

TEST(PointwisePolicies, SigmoidReachesItsEnds) {
  const SigmoidWeight policy{3.0};
  EXPECT_EQ(policy.weigh(-1e30f), 0.0f);
  EXPECT_EQ(policy.weigh(1e30f), 1.0f);
  EXPECT_EQ(policy.vjp(1e30f, 1.0f, 5.0f), 0.0f);
}

TEST(PointwisePolicies, ASaturatedSigmoidKeepsTheDigitsOfItsSlope) {
  const SigmoidWeight policy{-1.0};
  for (const double s : {-60.0, -9.0, 3.0, 9.0, 13.0, 18.0, 31.0, 80.0}) {
    const double e = std::exp(-std::abs(s - 1.0)), slope = e / ((1 + e) * (1 + e));
    const auto single = static_cast<float>(s);
    EXPECT_NEAR(policy.vjp(single, policy.weigh(single), 1.0f), slope, 1e-6 * slope) << s;
    EXPECT_NEAR(policy.vjp(s, policy.weigh(s), 1.0), slope, 1e-14 * slope) << s;
  }
}

TEST(PointwisePolicies, ExpEndsWhereManyOfThemHaveASum) {
  EXPECT_EQ(ExponentialWeight::weigh(1e30f), 0x1p100f);
  EXPECT_EQ(ExponentialWeight::weigh(math::kInfinity<double>), 0x1p996);
  EXPECT_EQ(ExponentialWeight::vjp(1e30f, 0x1p100f, 5.0f), 0.0f);
}

TEST(AlibiPolicy, FallsWithDistanceOnBothSides) {
  EXPECT_EQ(Alibi::apply(1.0f, 0.5f, 3.0f), -0.5f);
  EXPECT_EQ(Alibi::apply(1.0f, 0.5f, -3.0f), -0.5f);
}

// The counter is a promise to other devices: these words must never change.
TEST(DropoutPolicy, CounterIsFixed) {
  const PairDropout pairs = PairDropout::of(0.5f, 42, 7).at(3, 5);
  const Philox words = pairs.words(1000, 17);
  const Philox want =
      philox(42 + 7 * 0x9E3779B97F4A7C15u, (std::uint64_t{17} << 32) | 1000, (std::uint64_t{3} << 32) | 5);
  for (int w = 0; w < 4; ++w) {
    EXPECT_EQ(words.word[w], want.word[w]);
    EXPECT_EQ(pairs.keep(1000, 68 + w), want.word[w] >= 0x80000000u);
  }
}

TEST(DropoutPolicy, ShiftedByStreamsItIsThatOfALaterOne) {
  const std::uint64_t later = 5;
  EXPECT_EQ(PairDropout::of(0.5f, 42, 7).shifted_by(&later).key, PairDropout::of(0.5f, 42, 12).key);
  EXPECT_EQ(PairDropout::of(0.5f, 42, 7).shifted_by(nullptr).key, PairDropout::of(0.5f, 42, 7).key);
}

TEST(DropoutPolicy, DropsTheShareItWasAskedFor) {
  for (float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
    const PairDropout pairs = PairDropout::of(p, 1, 2).at(0, 0);
    int dropped = 0;
    for (int i = 0; i < 200; ++i)
      for (int j = 0; j < 200; ++j) dropped += !pairs.keep(i, j);
    EXPECT_NEAR(dropped / 40000.0, p, 0.01);
  }
}

TEST(DropoutPolicy, HeadsBatchesAndStreamsDiffer) {
  const PairDropout base = PairDropout::of(0.5f, 1, 2);
  const auto agree = [](const PairDropout& a, const PairDropout& b) {
    int same = 0;
    for (int j = 0; j < 4000; ++j) same += a.keep(1, j) == b.keep(1, j);
    return same / 4000.0;
  };
  EXPECT_NEAR(agree(base.at(0, 0), base.at(0, 1)), 0.5, 0.05);
  EXPECT_NEAR(agree(base.at(0, 0), base.at(1, 0)), 0.5, 0.05);
  EXPECT_NEAR(agree(base.at(0, 0), PairDropout::of(0.5f, 1, 3).at(0, 0)), 0.5, 0.05);
  EXPECT_NEAR(agree(base.at(0, 0), PairDropout::of(0.5f, 2, 2).at(0, 0)), 0.5, 0.05);
}

}  // namespace
}  // namespace fovea

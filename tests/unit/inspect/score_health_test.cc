#include "inspect/score_health.h"

#include <gtest/gtest.h>

#include <functional>

#include "inspect/layer.h"
#include "support/tensors.h"

// What is measured of the gradients of scores, against differences of the definition.
namespace fovea::inspection {
namespace {

constexpr std::int64_t kN = 12, kHeads = 2, kD = 4;
using Numbers = std::vector<double>;
using Rows = std::vector<Numbers>;  // of one head

struct Theory {
  std::string mechanism;
  ScoreTheory theory;
  bool causal = false;
};
void PrintTo(const Theory& theory, std::ostream* out) { *out << theory.mechanism << (theory.causal ? " causal" : ""); }

class ScoreGradients : public ::testing::TestWithParam<Theory> {
 protected:
  static constexpr double kEps = 1e-6;

  ScoreGradients() {
    const auto draw = [&](std::uint64_t seed) {
      return testing::random(context_, {1, kN, kHeads, kD}, seed, DType::f32, 1.5);
    };
    q_ = draw(1);
    k_ = draw(2);
    v_ = draw(3);
    d_output_ = draw(4).to_vector<float>();
  }

  ScoreHealth measure() {
    const SequenceCall call =
        single_sequence(context_, {q_, k_, v_, Mechanism::parse(GetParam().mechanism), {.causal = GetParam().causal}});
    return score_health(context_, {call, GetParam().theory, kEps, d_output_});
  }

  static double at(const std::vector<float>& x, std::int64_t row, std::int64_t head, std::int64_t c) {
    return static_cast<double>(x[static_cast<std::size_t>((row * kHeads + head) * kD + c)]);
  }
  std::int64_t keys(std::int64_t row) const { return GetParam().causal ? row + 1 : kN; }

  // The scores of a row of a head, as the paper means them.
  Numbers scores(std::int64_t row, std::int64_t head) const {
    const std::vector<float> q = q_.to_vector<float>(), k = k_.to_vector<float>();
    const auto feature = [](double x) { return x > 0.0 ? x + 1.0 : std::exp(x); };
    Numbers s;
    for (std::int64_t j = 0; j < keys(row); ++j) {
      double sum = 0.0;
      for (std::int64_t c = 0; c < kD; ++c) {
        const double a = at(q, row, head, c), b = at(k, j, head, c);
        sum += GetParam().theory == ScoreTheory::softmax ? a * b / 2.0 : feature(a) * feature(b);  // sqrt(d) is 2
      }
      s.push_back(sum);
    }
    return s;
  }
  Numbers shares(Numbers s) const {
    double sum = 0.0;
    for (double& x : s) sum += x = GetParam().theory == ScoreTheory::softmax ? std::exp(x) : x;
    for (double& x : s) x /= sum;
    return s;
  }
  // d_output . o of a row, with the scores of its heads.
  double along(std::int64_t row, const Rows& s) const {
    const std::vector<float> v = v_.to_vector<float>();
    Numbers o;
    double squares = 0.0;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const Numbers& of = s[static_cast<std::size_t>(h)];
      const Numbers p = GetParam().theory == ScoreTheory::norm ? of : shares(of);
      for (std::int64_t c = 0; c < kD; ++c) {
        double sum = 0.0;
        for (std::size_t j = 0; j < p.size(); ++j) sum += p[j] * at(v, static_cast<std::int64_t>(j), h, c);
        squares += sum * sum;
        o.push_back(sum * at(d_output_, row, h, c));
      }
    }
    double sum = 0.0;
    for (const double x : o) sum += x;
    return GetParam().theory == ScoreTheory::norm ? sum / std::sqrt(squares / (kHeads * kD) + kEps) : sum;
  }

  static double slope(double& x, const std::function<double()>& f) {
    constexpr double kStep = 1e-5;
    const double before = x;
    x = before + kStep;
    const double above = f();
    x = before - kStep;
    const double below = f();
    x = before;
    return (above - below) / (2.0 * kStep);
  }

  template <class F>
  void each_row(F&& f) {
    for (std::int64_t row = 0; row < kN; ++row) {
      Rows s;
      for (std::int64_t h = 0; h < kHeads; ++h) s.push_back(scores(row, h));
      f(row, s);
    }
  }

  Context context_ = testing::poisoned();
  Tensor q_, k_, v_;
  std::vector<float> d_output_;
};

TEST_P(ScoreGradients, AreThoseOfTheDefinitionAndWithinTheirBounds) {
  const ScoreHealth health = measure();
  double gradient = 0.0, derivative = 0.0, smallest = INFINITY, logit = -INFINITY;
  each_row([&](std::int64_t row, Rows& s) {
    for (Numbers& of : s)
      for (double& score : of) {
        gradient = std::max(gradient, std::abs(slope(score, [&] { return along(row, s); })));
        smallest = std::min(smallest, std::abs(score));
        logit = std::max(logit, score);
        if (of.size() < 2) continue;  // one key has all
        for (std::size_t j = 0; j < of.size(); ++j)
          derivative = std::max(derivative, std::abs(slope(score, [&] { return shares(of)[j]; })));
      }
  });
  ASSERT_TRUE(health.gradient && health.gradient_bound);
  EXPECT_NEAR(*health.gradient, gradient, 2e-4 * gradient);
  EXPECT_LE(*health.gradient, *health.gradient_bound);
  ASSERT_EQ(health.derivative.has_value(), GetParam().theory != ScoreTheory::norm);
  if (health.derivative) {
    EXPECT_NEAR(*health.derivative, derivative, 2e-4 * derivative);
    EXPECT_LE(*health.derivative, *health.derivative_bound);
    const double bound = GetParam().theory == ScoreTheory::softmax ? 0.25 : 0.25 / smallest;
    if (!GetParam().causal) {
      EXPECT_NEAR(*health.derivative_bound, bound, 1e-4 * bound);
    }
  }
  ASSERT_EQ(health.max_logit.has_value(), GetParam().theory == ScoreTheory::softmax);
  if (health.max_logit) {
    EXPECT_NEAR(*health.max_logit, logit, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Theories, ScoreGradients,
    ::testing::Values(Theory{"softmax", ScoreTheory::softmax}, Theory{"softmax", ScoreTheory::softmax, true},
                      Theory{"linear", ScoreTheory::denominator}, Theory{"linear", ScoreTheory::denominator, true},
                      Theory{"norm:eps=1e-6", ScoreTheory::norm}, Theory{"norm:eps=1e-6", ScoreTheory::norm, true}));

// Two keys with half of the mass each, and values as far apart as they can be.
TEST(SoftmaxBounds, AreReached) {
  Context context = testing::poisoned();
  const Tensor same = Tensor::zeros(context, {1, 2, 1, 4}, DType::f32);
  const std::vector<float> opposite{3, 0, 0, 0, -3, 0, 0, 0}, pull{2, 0, 0, 0, 0, 0, 0, 0};
  const SequenceCall call = single_sequence(
      context, {same, same, Tensor::from<float>(context, {1, 2, 1, 4}, opposite), Mechanism("softmax"), {}});
  const ScoreHealth health = score_health(context, {call, ScoreTheory::softmax, 0.0, pull});
  EXPECT_NEAR(*health.derivative, *health.derivative_bound, 1e-6);
  EXPECT_NEAR(*health.gradient, *health.gradient_bound, 1e-5);
  EXPECT_NEAR(*health.gradient, 3.0, 1e-5);  // c1 c2 / 2
}

// Rows of all lengths, ten thousand for each theory.
TEST(Bounds, HoldForRandomRows) {
  Context context = testing::poisoned();
  struct Case {
    const char* mechanism;
    ScoreTheory theory;
    double eps;
  };
  for (const Case& one :
       {Case{"softmax", ScoreTheory::softmax, 0.0}, Case{"linear:eps=0", ScoreTheory::denominator, 0.0},
        Case{"norm:eps=0.01", ScoreTheory::norm, 0.01}})
    for (std::uint64_t seed = 0; seed < 80; ++seed) {
      const auto n = static_cast<std::int64_t>(2 + seed % 31);
      const auto draw = [&](std::uint64_t which, double scale) {
        return testing::random(context, {1, n, 8, 4}, 10 * seed + which, DType::f32, scale);
      };
      const double scale = 0.2 * static_cast<double>(1 + seed % 9);
      const SequenceCall call = single_sequence(
          context,
          {draw(1, scale), draw(2, scale), draw(3, 1.0), Mechanism::parse(one.mechanism), {.causal = seed % 2 == 1}});
      const std::vector<float> d_output = draw(4, 1.0).to_vector<float>();
      const ScoreHealth health = score_health(context, {call, one.theory, one.eps, d_output});
      ASSERT_LE(*health.gradient, *health.gradient_bound * (1.0 + 1e-5)) << one.mechanism << " " << seed;
      if (health.paper_bound) {
        ASSERT_LE(*health.gradient_bound, *health.paper_bound);
      }
      if (health.derivative) {
        ASSERT_LE(*health.derivative, *health.derivative_bound * (1.0 + 1e-5)) << one.mechanism << " " << seed;
      }
    }
}

// Scores that lie far apart leave one key with nearly all, and nothing to learn from.
TEST(Saturation, IsTheShareOfRowsWithOneKey) {
  Context context = testing::poisoned();
  const auto saturated = [&](double scale) {
    const SequenceCall call = single_sequence(context, {testing::random(context, {1, 40, 2, 8}, 1, DType::f32, scale),
                                                        testing::random(context, {1, 40, 2, 8}, 2, DType::f32, scale),
                                                        testing::random(context, {1, 40, 2, 8}, 3, DType::f32),
                                                        Mechanism("softmax"),
                                                        {}});
    return *score_health(context, {call, ScoreTheory::softmax, 0.0, {}}).saturated;
  };
  EXPECT_EQ(saturated(0.3), 0.0);
  EXPECT_GT(saturated(12.0), 0.9);
}

// The denominator of a row whose features hardly meet: the derivative grows without a bound.
TEST(Denominator, NearZeroIsSeen) {
  Context context = testing::poisoned();
  const auto derivative = [&](double below) {
    const Tensor low = Tensor::empty(context, {1, 8, 1, 4}, DType::f32);
    low.fill(below);  // elu(x) + 1 is e^x
    const SequenceCall call = single_sequence(
        context,
        {low, low, testing::random(context, {1, 8, 1, 4}, 3, DType::f32), Mechanism::parse("linear:eps=0"), {}});
    return *score_health(context, {call, ScoreTheory::denominator, 0.0, {}}).derivative;
  };
  EXPECT_NEAR(derivative(-4.0) / derivative(-1.0), std::exp(6.0), 0.01 * std::exp(6.0));
}

TEST(ScoreHealth, OfNothingIsEmpty) {
  Context context = testing::poisoned();
  const Tensor none = Tensor::empty(context, {1, 0, 2, 4}, DType::f32);
  const SequenceCall call = single_sequence(context, {none, none, none, Mechanism("softmax"), {}});
  EXPECT_FALSE(score_health(context, {call, ScoreTheory::softmax, 0.0, {}}).derivative);
}

}  // namespace
}  // namespace fovea::inspection

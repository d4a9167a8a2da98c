// Row rule policies alone: the order of the images, and searches that arrive.

#include "policy/row_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace fovea {
namespace {

template <class R>
class TopKSearchTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TopKSearchTest, Reals);

TYPED_TEST(TopKSearchTest, ImagesAreOrderedAsTheValues) {
  using R = TypeParam;
  using Search = TopKSearch<R>;
  const R tiny = std::numeric_limits<R>::denorm_min(), huge = std::numeric_limits<R>::max();
  const std::vector<R> values{-math::kInfinity<R>, -huge, -1, -tiny, R{0}, tiny, 1, huge, math::kInfinity<R>};
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(Search::value(Search::image(values[i])), values[i]);
    if (i > 0) {
      EXPECT_LT(Search::image(values[i - 1]), Search::image(values[i]));
    }
  }
  EXPECT_EQ(Search::image(std::nextafter(R{1}, R{2})), Search::image(R{1}) + 1);
}

TYPED_TEST(TopKSearchTest, TheMiddleLiesBetween) {
  using R = TypeParam;
  using Search = TopKSearch<R>;
  const std::vector<R> values{-std::numeric_limits<R>::max(), R{-3}, R{-1e-30}, R{0}, R{1e-30}, R{3}};
  for (R low : values)
    for (R high : values)
      for (bool of_images : {false, true}) {
        if (!(low < high)) continue;
        const auto a = Search::image(low), b = Search::image(high), middle = Search::middle(a, b, of_images);
        EXPECT_LT(a, middle);
        EXPECT_LT(middle, b);
      }
  const auto one = Search::image(R{1});
  for (bool of_images : {false, true}) EXPECT_EQ(Search::middle(one, one + 2, of_images), one + 1);
}

TEST(SparsemaxPolicy, StepsArriveAndStay) {
  const std::vector<double> x{0.0, -0.2, -0.3, -0.95};
  double tau = -1.0;
  for (int i = 0; i < 4; ++i) {
    double sum = 0, count = 0;
    for (double value : x)
      if (value > tau) sum += value - tau, count += 1;
    tau += Sparsemax::step(sum, count);
  }
  EXPECT_NEAR(tau, -0.5, 1e-15);
  EXPECT_EQ(Sparsemax::step(0.0, 0.0), 0.0);  // a row without keys
  EXPECT_EQ(Sparsemax::weigh(-math::kInfinity<double>, tau), 0.0);
  EXPECT_TRUE(std::isnan(Sparsemax::weigh(std::nan(""), tau)));
  EXPECT_EQ(Sparsemax::vjp(0.0, std::nan(""), 1.0), 0.0);
}

TEST(Entmax15Policy, TheLastStepIsExact) {
  const std::vector<double> x{0.0, -0.1, -0.4, -0.9};
  double tau = -1.0;
  bool last = false;
  for (int i = 0; i < 20 && !last; ++i) {
    Entmax15::Sums<double> sums{0, 0, 0, math::kInfinity<double>};
    for (double value : x) {
      const double r = value - tau;
      if (r > 0) sums = {sums.count + 1, sums.first + r, sums.second + r * r, std::fmin(sums.least, r)};
    }
    const auto step = Entmax15::step(sums);
    EXPECT_GE(step.length, 0.0);
    tau += step.length;
    last = step.last;
  }
  EXPECT_TRUE(last);
  double total = 0;
  for (double value : x) total += Entmax15::weigh(value, tau);
  EXPECT_NEAR(total, 1.0, 1e-14);
  EXPECT_EQ(Entmax15::step<double>({0, 0, 0, math::kInfinity<double>}).length, 0.0);  // a row without keys
  EXPECT_EQ(Entmax15::weigh(-math::kInfinity<double>, tau), 0.0);
}

TEST(SelfAdjustNormalizedPolicy, HasNoFactorWithoutASpread) {
  EXPECT_EQ(SelfAdjustNormalized<double>::of(0.0, 0.0).inverse, 0.0);
  const auto positive = SelfAdjustNormalized<double>::of(1.0, 4.0), negative = SelfAdjustNormalized<double>::of(-3, -1);
  EXPECT_DOUBLE_EQ(positive.factor(4.0), 1.0);
  EXPECT_DOUBLE_EQ(positive.factor(1.0), 0.25);
  EXPECT_DOUBLE_EQ(negative.factor(-3.0), 0.0);
  EXPECT_DOUBLE_EQ(negative.factor(-1.5), 0.5);
  EXPECT_EQ(positive.weigh(-math::kInfinity<double>, 0.0), 0.0);
}

}  // namespace
}  // namespace fovea

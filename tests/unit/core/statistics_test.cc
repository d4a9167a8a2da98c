#include "core/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fovea {
namespace {

TEST(Statistics, SamplesHaveMeanDeviationAndMargin) {
  const std::vector<double> numbers{1.0, 2.0, 3.0, 6.0};
  const Sample sample = describe(numbers);
  EXPECT_EQ(sample.count, 4u);
  EXPECT_DOUBLE_EQ(sample.mean, 3.0);
  EXPECT_NEAR(sample.deviation, std::sqrt(14.0 / 3.0), 1e-12);
  EXPECT_NEAR(sample.margin(), 3.1824 * sample.deviation / 2.0, 1e-12);
  EXPECT_TRUE(std::isnan(describe({}).mean));
  const Sample one = describe(std::vector<double>{5.0});
  EXPECT_EQ(one.mean, 5.0);
  EXPECT_EQ(one.deviation, 0.0);
  EXPECT_TRUE(std::isinf(one.margin()));
}

TEST(Statistics, DeviationsOfSeveralSamplesAreTakenTogether) {
  const std::vector<Sample> samples{describe(std::vector<double>{1.0, 3.0}),
                                    describe(std::vector<double>{5.0, 5.0, 8.0}), describe(std::vector<double>{7.0})};
  const double variance = (2.0 + 6.0) / 3.0;  // squares over degrees of freedom
  EXPECT_NEAR(pooled_margin(samples, 2), 3.1824 * std::sqrt(variance / 2.0), 1e-12);
  EXPECT_TRUE(std::isinf(pooled_margin(std::span(samples).last(1), 1)));
}

TEST(Statistics, StudentsQuantiles) {
  EXPECT_NEAR(t_quantile(1), 12.7062, 1e-4);
  EXPECT_NEAR(t_quantile(10), 2.2281, 1e-4);
  EXPECT_NEAR(t_quantile(11), 2.20099, 1e-3);
  EXPECT_NEAR(t_quantile(30), 2.04227, 1e-4);
  EXPECT_NEAR(t_quantile(1000), 1.96234, 1e-4);
  EXPECT_TRUE(std::isinf(t_quantile(0)));
  for (std::int64_t v = 1; v < 40; ++v) EXPECT_GT(t_quantile(v), t_quantile(v + 1)) << v;
}

TEST(Statistics, SharesHaveWilsonsInterval) {
  EXPECT_NEAR(share_margin(0.37, 2000), 0.0211, 1e-4);
  EXPECT_GT(share_margin(1.0, 100), 0.01);  // all right of a hundred is not certain
  EXPECT_EQ(share_margin(0.5, 0), 0.0);
}

TEST(Statistics, NumbersAreApartWhenTheIntervalOfTheirDifferenceLeavesOutZero) {
  EXPECT_FALSE(apart(0.40, 0.02, 0.425, 0.02));
  EXPECT_TRUE(apart(0.40, 0.02, 0.43, 0.02));
  EXPECT_TRUE(apart(1.0, 0.0, 1.01, 0.0));
  EXPECT_FALSE(apart(1.0, 0.0, 1.0, 0.0));
  EXPECT_FALSE(apart(1.0, 0.0, 9.0, kUnknownMargin));
}

}  // namespace
}  // namespace fovea

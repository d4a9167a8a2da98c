#include "policy/sine_cosine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "policy/log_sigmoid.h"

namespace fovea {
namespace {

TEST(SineCosine, SineAndCosineAgreeWithTheLibrary) {
  double worst = 0.0;
  for (int i = -200'000; i <= 200'000; ++i) {
    const float x = static_cast<float>(i) * 4e-4f;
    const math::SineCosine<float> found = math::sine_cosine(x);
    worst = std::fmax(worst, std::abs(static_cast<double>(found.sine) - std::sin(static_cast<double>(x))));
    worst = std::fmax(worst, std::abs(static_cast<double>(found.cosine) - std::cos(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 1.5e-7);
}

TEST(SineCosine, LargeAnglesKeepTheirPhase) {
  for (float x = 1000.0f; x < 8000.0f; x += 0.37f) {
    ASSERT_NEAR(math::sine_cosine(x).sine, std::sin(static_cast<double>(x)), 2e-7) << x;
    ASSERT_NEAR(math::sine_cosine(-x).cosine, std::cos(static_cast<double>(x)), 2e-7) << x;
  }
}

TEST(SineCosine, NaNGoesThrough) {
  const math::SineCosine<float> found = math::sine_cosine(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(found.sine));
  EXPECT_TRUE(std::isnan(found.cosine));
}

TEST(LogSigmoid, AgreesWithTheLibrary) {
  for (double x = -100.0; x < 100.0; x += 0.0137) {
    const auto narrow = static_cast<float>(x);
    const double wide = static_cast<double>(narrow);
    const double want = std::fmin(wide, 0.0) - std::log1p(std::exp(-std::abs(wide)));
    ASSERT_NEAR(policy::LogSigmoid::apply(narrow), want, 2e-7 * std::fmax(1.0, std::abs(want))) << x;
    ASSERT_NEAR(policy::LogSigmoid::apply(wide), want, 1e-15) << x;
    ASSERT_NEAR(policy::LogSigmoid::slope(wide), 1.0 / (1.0 + std::exp(wide)), 1e-15) << x;
  }
  EXPECT_TRUE(std::isnan(policy::LogSigmoid::apply(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(policy::LogSigmoid::apply(-1e30f), -1e30f);
}

}  // namespace
}  // namespace fovea

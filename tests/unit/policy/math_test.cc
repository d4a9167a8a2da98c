#include "policy/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fovea {
namespace {

struct Sweep {
  double begin, end;
};

// Largest error of `ours` against `exact` over a sweep, relative above `floor` and absolute (in units of it) below.
template <class R, class Ours, class Exact>
double worst(Sweep sweep, double floor, Ours ours, Exact exact) {
  double most = 0;
  constexpr int kSteps = 200'001;
  for (int i = 0; i < kSteps; ++i) {
    const R x = static_cast<R>(sweep.begin + (sweep.end - sweep.begin) * i / (kSteps - 1));
    const double want = exact(static_cast<double>(x));
    const double error = std::fabs(static_cast<double>(ours(x)) - want) / std::max(std::fabs(want), floor);
    most = std::max(most, error);
  }
  return most;
}

template <class R>
class Math : public testing::Test {
 public:
  static constexpr bool kFloat = std::is_same_v<R, float>;
  static constexpr double kEps = kFloat ? 2.0e-7 : 1e-15;
  static constexpr double kTiny = kFloat ? 1e-37 : 1e-300;
  static constexpr double kWide = kFloat ? 86.0 : 700.0;
};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Math, Reals);

TYPED_TEST(Math, Exp2) {
  using R = TypeParam;
  const double wide = this->kFloat ? 125 : 1020;
  const auto exact = [](double x) { return std::exp2(x); };
  EXPECT_LT(worst<R>({-wide, wide}, this->kTiny, math::exp2<R>, exact), this->kEps);
  EXPECT_LT(worst<R>({-wide, 0}, this->kTiny, math::exp2_low<R>, exact), this->kEps);
  EXPECT_LT(worst<R>({-1, 1}, this->kTiny, math::exp2_low<R>, exact), this->kEps);
  EXPECT_EQ(math::exp2_low(R{0}), R{1});
  EXPECT_EQ(math::exp2_low(-math::kInfinity<R>), R{0});
  EXPECT_EQ(math::exp2_low(R{-5000}), R{0});
  EXPECT_EQ(math::exp2(R{5000}), math::kInfinity<R>);
  EXPECT_TRUE(std::isnan(math::exp2_low(std::numeric_limits<R>::quiet_NaN())));
}

TYPED_TEST(Math, Exponentials) {
  using R = TypeParam;
  const auto exp = [](double x) { return std::exp(x); };
  const auto expm1 = [](double x) { return std::expm1(x); };
  EXPECT_LT(worst<R>({-this->kWide, this->kWide + 2}, this->kTiny, math::exp<R>, exp), this->kEps);
  EXPECT_LT(worst<R>({-this->kWide, this->kWide}, this->kTiny, math::expm1<R>, expm1), this->kEps);
  EXPECT_LT(worst<R>({-0.5, 0.5}, this->kTiny, math::expm1<R>, expm1), this->kEps);
  EXPECT_EQ(math::exp(-math::kInfinity<R>), R{0});
  EXPECT_EQ(math::exp(math::kInfinity<R>), math::kInfinity<R>);
  EXPECT_EQ(math::expm1(-math::kInfinity<R>), R{-1});
  EXPECT_TRUE(std::isnan(math::exp(std::numeric_limits<R>::quiet_NaN())));
}

TYPED_TEST(Math, Squashing) {
  using R = TypeParam;
  const auto tanh = [](double x) { return std::tanh(x); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto erf = [](double x) { return std::erf(x); };
  EXPECT_LT(worst<R>({-12, 12}, this->kTiny, math::tanh<R>, tanh), 2 * this->kEps);
  EXPECT_LT(worst<R>({-1e-3, 1e-3}, this->kTiny, math::tanh<R>, tanh), 2 * this->kEps);
  EXPECT_LT(worst<R>({-80, 80}, this->kTiny, math::sigmoid<R>, sigmoid), 2 * this->kEps);
  EXPECT_LT(worst<R>({-6, 6}, this->kTiny, math::erf<R>, erf), 2 * this->kEps);
  EXPECT_LT(worst<R>({-1e-3, 1e-3}, this->kTiny, math::erf<R>, erf), 2 * this->kEps);
  EXPECT_EQ(math::tanh(math::kInfinity<R>), R{1});
  EXPECT_EQ(math::sigmoid(-math::kInfinity<R>), R{0});
  EXPECT_TRUE(std::isnan(math::tanh(std::numeric_limits<R>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(math::sigmoid(std::numeric_limits<R>::quiet_NaN())));
}

TYPED_TEST(Math, Log) {
  using R = TypeParam;
  const auto log = [](double x) { return std::log(x); };
  EXPECT_LT(worst<R>({1e-3, 10}, 1e-2, math::log<R>, log), this->kEps);
  EXPECT_LT(worst<R>({1, 1e6}, 1e-2, math::log<R>, log), this->kEps);
  EXPECT_LT(worst<R>({0.9, 1.1}, 1e-6, math::log<R>, log), this->kEps);
  EXPECT_NEAR(math::log(static_cast<R>(1e-42)), std::log(static_cast<double>(static_cast<R>(1e-42))), 1e-5);
  EXPECT_EQ(math::log(R{0}), -math::kInfinity<R>);
  EXPECT_EQ(math::log(math::kInfinity<R>), math::kInfinity<R>);
  EXPECT_TRUE(std::isnan(math::log(R{-1})));
  EXPECT_TRUE(std::isnan(math::log(std::numeric_limits<R>::quiet_NaN())));
}

}  // namespace
}  // namespace fovea

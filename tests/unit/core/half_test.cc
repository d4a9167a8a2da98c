#include "fovea/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace fovea {
namespace {

// The value of 16 bits with `exponent` exponent bits and `mantissa` mantissa bits, from the definition.
double decode(std::uint16_t bits, int exponent, int mantissa) {
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int e = (bits >> mantissa) & ((1 << exponent) - 1), bias = (1 << (exponent - 1)) - 1;
  const double fraction = std::ldexp(bits & ((1 << mantissa) - 1), -mantissa);
  if (e == (1 << exponent) - 1)
    return fraction == 0.0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (e == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0 + fraction, e - bias);
}

template <class Half>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int kExponent = 8, kMantissa = 7;
};
template <>
struct Format<f16> {
  static constexpr int kExponent = 5, kMantissa = 10;
};

template <class Half>
class HalfTest : public ::testing::Test {
 protected:
  static double value(std::uint16_t bits) { return decode(bits, Format<Half>::kExponent, Format<Half>::kMantissa); }
};
using Halves = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryPatternReadsAsDefinedAndComesBack) {
  for (int i = 0; i < 65536; ++i) {
    TypeParam half;
    half.bits = static_cast<std::uint16_t>(i);
    const float read = half;
    const double want = this->value(half.bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(read)) << i;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(read)))) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(read), want) << i;
    ASSERT_EQ(std::signbit(read), std::signbit(want)) << i;
    ASSERT_EQ(TypeParam(read).bits, half.bits) << i;
  }
}

// Between any two neighbours: the middle goes to the even one, a hair to either side to the nearer.
TYPED_TEST(HalfTest, RoundsToNearestEven) {
  const int infinity = ((1 << Format<TypeParam>::kExponent) - 1) << Format<TypeParam>::kMantissa;
  for (int i = 0; i + 1 < infinity; ++i) {
    TypeParam low, high;
    low.bits = static_cast<std::uint16_t>(i);
    high.bits = static_cast<std::uint16_t>(i + 1);
    const float middle = static_cast<float>((this->value(low.bits) + this->value(high.bits)) / 2);
    ASSERT_EQ(TypeParam(middle).bits, i % 2 == 0 ? low.bits : high.bits) << i;
    ASSERT_EQ(TypeParam(-middle).bits & 0x7fff, i % 2 == 0 ? low.bits : high.bits) << i;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, low.bits) << i;
    ASSERT_EQ(TypeParam(std::nextafter(middle, INFINITY)).bits, high.bits) << i;
  }
}

TYPED_TEST(HalfTest, TooLargeBecomesInfinity) {
  EXPECT_EQ(static_cast<float>(TypeParam(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_EQ(static_cast<float>(TypeParam(-std::numeric_limits<float>::max())), -INFINITY);
  EXPECT_EQ(static_cast<float>(TypeParam(INFINITY)), INFINITY);
}

TEST(F16, OverflowsAtTheMiddleOfTheLastStep) {
  EXPECT_EQ(static_cast<float>(f16(65519.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(f16(65520.0f)), INFINITY);
}

}  // namespace
}  // namespace fovea

#include "core/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace fovea {
namespace {

std::array<std::uint32_t, 4> words(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  const Philox p = philox(key, low, high);
  return {p.word[0], p.word[1], p.word[2], p.word[3]};
}

// The known answers published with the Random123 generators (philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(words(0, 0, 0), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  EXPECT_EQ(words(kOnes, kOnes, kOnes), (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0'a4093822, 0x85a308d3'243f6a88, 0x03707344'13198a2e),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_LT(uniform01(0xffffffffu), 1.0f);
}

TEST(Philox, ThresholdKeepsTheRightShare) {
  EXPECT_EQ(drop_threshold(0.0f), 0u);
  EXPECT_EQ(drop_threshold(0.5f), 0x80000000u);
  EXPECT_EQ(drop_threshold(0.25f), 0x40000000u);
}

TEST(Random, SameSeedSameDraws) {
  Random a(3, 4), b(3, 4), other_stream(3, 5), other_seed(4, 4);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t draw = a.bits();
    EXPECT_EQ(draw, b.bits());
    differs = differs || draw != other_stream.bits() || draw != other_seed.bits();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, CopiesContinueWhereTheOriginalStood) {
  Random a(1);
  for (int i = 0; i < 7; ++i) a.bits();
  Random b = a;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(a.bits(), b.bits());
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random draws(2);
  std::array<int, 7> count{};
  for (int i = 0; i < 70000; ++i) ++count[draws.below(7)];
  for (int c : count) EXPECT_NEAR(c, 10000, 500);  // five standard deviations
  EXPECT_EQ(draws.below(1), 0u);
}

TEST(Random, NormalHasTheRightMoments) {
  Random draws(5);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double x = draws.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.1);
}

TEST(Random, DoublesUseMoreThanFloatBits) {
  Random draws(6);
  bool fine = false;
  for (int i = 0; i < 100; ++i) {
    const double x = draws.uniform_double();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    fine = fine || x != static_cast<double>(static_cast<float>(x));
  }
  EXPECT_TRUE(fine);
}

}  // namespace
}  // namespace fovea

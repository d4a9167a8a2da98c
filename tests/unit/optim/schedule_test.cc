#include <gtest/gtest.h>

#include <cmath>

#include "fovea/optim.h"
#include "support/names.h"

namespace fovea {

void PrintTo(ScheduleKind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"inverse_sqrt", "one_cycle", "cosine", "constant", "polynomial", "halving"};
  *out << kNames[static_cast<int>(kind)];
}

namespace {

TEST(Schedule, InverseSqrtIsTheNoamScheduleFromItsPeakOn) {
  // d^-0.5 min(t^-0.5, t w^-1.5) with d 512 and w 4000 peaks at 6.988e-4.
  const double peak = 1.0 / std::sqrt(512.0 * 4000.0);
  EXPECT_NEAR(peak, 6.988e-4, 5e-8);
  const Schedule schedule{ScheduleKind::inverse_sqrt, peak, 4000};
  EXPECT_DOUBLE_EQ(schedule.rate(4000, 0), peak);
  EXPECT_DOUBLE_EQ(schedule.rate(16000, 0), peak / 2);
  EXPECT_NEAR(schedule.rate(2000, 0), peak / 2, 1e-7);
  EXPECT_NEAR(schedule.rate(1, 0), 1e-7 + (peak - 1e-7) / 4000, 1e-15);
}

TEST(Schedule, OneCycleRisesFromATwentyFifthAndEndsAtATenThousandthOfThat) {
  const Schedule schedule{ScheduleKind::one_cycle, 1e-4, 1000};
  EXPECT_DOUBLE_EQ(schedule.rate(1, 50000), 1e-4 / 25);
  EXPECT_DOUBLE_EQ(schedule.rate(1000, 50000), 1e-4);
  EXPECT_NEAR(schedule.rate(50000, 50000), 1e-4 / 25 / 1e4, 1e-18);
  EXPECT_NEAR(schedule.rate(25500, 50000), 0.5 * (1e-4 + 4e-10), 1e-12);  // half way down
}

TEST(Schedule, CosineEndsAtZero) {
  const Schedule schedule{ScheduleKind::cosine, 2.0, 10};
  EXPECT_DOUBLE_EQ(schedule.rate(5, 110), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(10, 110), 2.0);
  EXPECT_NEAR(schedule.rate(60, 110), 1.0, 1e-12);
  EXPECT_NEAR(schedule.rate(110, 110), 0.0, 1e-12);
  EXPECT_NEAR(schedule.rate(200, 110), 0.0, 1e-12);  // never rises again
}

TEST(Schedule, PolynomialFallsToItsFloor) {
  const Schedule line{ScheduleKind::polynomial, 2.0, 10}, square{ScheduleKind::polynomial, 2.0, 10, 2.0, 0.5};
  EXPECT_DOUBLE_EQ(line.rate(5, 110), 1.0);
  EXPECT_DOUBLE_EQ(line.rate(10, 110), 2.0);
  EXPECT_DOUBLE_EQ(line.rate(60, 110), 1.0);
  EXPECT_DOUBLE_EQ(line.rate(110, 110), 0.0);
  EXPECT_DOUBLE_EQ(square.rate(60, 110), 0.5 + 1.5 * 0.25);
  EXPECT_DOUBLE_EQ(square.rate(110, 110), 0.5);
  EXPECT_DOUBLE_EQ(square.rate(500, 110), 0.5);  // never rises again
}

TEST(Schedule, CosineFallsToItsFloor) {
  const Schedule schedule{ScheduleKind::cosine, 2.0, 10, 1.0, 0.5};
  EXPECT_DOUBLE_EQ(schedule.rate(10, 110), 2.0);
  EXPECT_NEAR(schedule.rate(60, 110), 1.25, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.rate(110, 110), 0.5);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::cosine, 2.0, 0, 1.0, 9.0}.rate(50, 100)), 2.0);  // a floor above the peak
}

TEST(Schedule, ConstantWarmsUpAndStays) {
  const Schedule schedule{ScheduleKind::constant, 3.0, 3};
  EXPECT_DOUBLE_EQ(schedule.rate(1, 9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(3, 9), 3.0);
  EXPECT_DOUBLE_EQ(schedule.rate(1000, 9), 3.0);
}

// Informer's published runs: the first epoch at the full rate, each other at half of the one before it.
TEST(Schedule, HalvesAfterEveryPeriod) {
  const Schedule schedule{.kind = ScheduleKind::halving, .peak = 1e-4, .warmup = 0, .period = 266};
  EXPECT_DOUBLE_EQ(schedule.rate(1, 1596), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(266, 1596), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.rate(267, 1596), 5e-5);
  EXPECT_DOUBLE_EQ(schedule.rate(1596, 1596), 1e-4 / 32);
}

class EverySchedule : public testing::TestWithParam<ScheduleKind> {};

TEST_P(EverySchedule, IsContinuousAtTheEndOfTheWarmUp) {
  for (const std::int64_t warmup : {1, 7, 1000}) {
    const Schedule schedule{GetParam(), 1.0, warmup};
    const double total = 1e6;
    EXPECT_DOUBLE_EQ(schedule.rate(warmup, total), 1.0);
    EXPECT_NEAR(schedule.rate(warmup + 1, total), 1.0, 0.51 / static_cast<double>(warmup));
  }
}

TEST_P(EverySchedule, IsFinitePositiveAndAtMostThePeak) {
  for (const std::int64_t warmup : {0, 1, 5, 100})
    for (const double total : {1.0, 5.0, 20.0})
      for (std::int64_t step = 1; step <= 20; ++step) {
        const double rate = Schedule{GetParam(), 0.5, warmup}.rate(step, total);
        EXPECT_TRUE(rate >= 0.0 && rate <= 0.5) << step << " of " << total << ", warm-up " << warmup;
      }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EverySchedule,
                         testing::Values(ScheduleKind::inverse_sqrt, ScheduleKind::one_cycle, ScheduleKind::cosine,
                                         ScheduleKind::constant, ScheduleKind::polynomial, ScheduleKind::halving),
                         kNamedAsPrinted);

}  // namespace
}  // namespace fovea

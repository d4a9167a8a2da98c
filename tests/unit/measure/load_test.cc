#include "measure/load.h"

#include <gtest/gtest.h>

#include <chrono>

namespace fovea {
namespace {

TEST(Load, OwnWorkIsNotThatOfOthers) {
  const LoadMeter meter;
  const auto start = std::chrono::steady_clock::now();
  volatile double sum = 0.0;
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300)) sum = sum + 1.0;
  const double all = meter.others();
  EXPECT_GE(all, 0.0);
  EXPECT_LE(all, 4096.0);
}

TEST(Load, IsToldFromATenthOfTheCoresOn) {
  EXPECT_EQ(load_warning(0.15, 2), "");
  EXPECT_EQ(load_warning(1.26, 2),
            "other programs kept 1.3 of 2 cores busy meanwhile: times and speeds are not to be trusted");
}

}  // namespace
}  // namespace fovea

#include "experiment/reproduce/locality.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Locality, OfEvenWeightsIsTheShare) {
  LocalityProfile profile;
  profile.add(std::vector<double>(400, 0.05), 20);
  for (const double share : {0.05, 0.2, 0.6, 1.0}) EXPECT_NEAR(profile.mass(share), share, 1e-12);
}

TEST(Locality, OfItselfAloneIsOne) {
  std::vector<double> weights(100, 0.0);
  for (std::size_t i = 0; i < 10; ++i) weights[11 * i] = -3.0;  // size counts, and rows need no sum of 1
  LocalityProfile profile;
  profile.add(weights, 10);
  EXPECT_NEAR(profile.mass(0.1), 1.0, 1e-12);
  EXPECT_NEAR(profile.mass(1.0), 1.0, 1e-12);
}

TEST(Locality, OfTheFarthestIsNothingUntilAllCount) {
  std::vector<double> weights(100, 0.0);
  for (std::size_t i = 0; i < 10; ++i) weights[10 * i + (i < 5 ? 9 : 0)] = 1.0;
  LocalityProfile profile;
  profile.add(weights, 10);
  EXPECT_NEAR(profile.mass(0.3), 0.0, 1e-12);
  EXPECT_NEAR(profile.mass(1.0), 1.0, 1e-12);
}

}  // namespace
}  // namespace fovea

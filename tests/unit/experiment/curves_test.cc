#include "experiment/curves.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(Curves, AreReadWithoutColumnsThatOlderVersionsDoNotWrite) {
  const TemporaryFolder folder;
  put(folder / "metrics.csv",
      "step,split,loss,accuracy,steps_per_second,train_seconds\n2,train,1.5,0.25,4,0.5\n2,validation,1.4,0.5,,0.5\n");
  const Curve train = read_curve(folder.path(), "train"), validation = read_curve(folder.path(), "validation");
  EXPECT_EQ(train.loss, std::vector<double>{1.5});
  EXPECT_EQ(train.rate, std::vector<double>{4.0});
  EXPECT_TRUE(std::isnan(train.tokens.at(0)));
  EXPECT_EQ(validation.accuracy, std::vector<double>{50.0});
}

TEST(Curves, MeansAreTakenWhereAllLinesAre) {
  const Line mean = mean_line({{{0, 1, 2, 3}, {0, 1, 2, 3}}, {{1, 3}, {3, 7}}});
  EXPECT_EQ(mean.x, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(mean.y, (std::vector<double>{2, 3.5, 5}));
  EXPECT_EQ(mean_line({{{4}, {5}}}).y, std::vector<double>{5});
  EXPECT_TRUE(mean_line({{{4}, {5}}, {{}, {}}}).x.empty());
  EXPECT_TRUE(mean_line({}).x.empty());
}

// Evaluations of equal steps: one point of each seed, at times that differ, has a mean, too.
TEST(Curves, AsManyPointsAreTakenOneByOne) {
  const Line one = mean_line({{{4}, {5}}, {{6}, {9}}});
  EXPECT_EQ(one.x, std::vector<double>{5});
  EXPECT_EQ(one.y, std::vector<double>{7});
  const Line two = mean_line({{{1, 3}, {0, 2}}, {{3, 7}, {2, 6}}});
  EXPECT_EQ(two.x, (std::vector<double>{2, 5}));
  EXPECT_EQ(two.y, (std::vector<double>{1, 4}));
}

TEST(Curves, LevelsAreReachedBetweenPoints) {
  const Line rising{{10, 20, 30}, {1, 2, 4}};
  EXPECT_DOUBLE_EQ(reached(rising, 3.0, true), 25.0);
  EXPECT_DOUBLE_EQ(reached(rising, 0.5, true), 10.0);
  EXPECT_TRUE(std::isnan(reached(rising, 5.0, true)));
  EXPECT_DOUBLE_EQ(reached({{10, 20}, {3, 1}}, 2.0, false), 15.0);
}

TEST(Curves, DriftIsSeenInTheMeansOfStretches) {
  std::vector<double> steady(80, 5.0), drifting;
  for (int i = 0; i < 80; ++i) drifting.push_back(i < 40 ? 4.0 : 6.0);
  EXPECT_EQ(drift_margin(steady), 0.0);
  EXPECT_GT(drift_margin(drifting), 0.5);
  EXPECT_TRUE(std::isinf(drift_margin({5.0})));
}

}  // namespace
}  // namespace fovea

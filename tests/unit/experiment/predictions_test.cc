#include "experiment/predictions.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "experiment/scores.h"
#include "support/fenced_memory.h"
#include "support/tiny.h"

namespace fovea {
namespace {

// (right, given) so many times.
std::vector<Prediction> predictions(const std::vector<std::array<int, 3>>& counts) {
  std::vector<Prediction> all;
  for (const auto& [answer, given, times] : counts)
    for (int i = 0; i < times; ++i) all.push_back({.answer = answer, .given = given});
  return all;
}

// As scikit-learn has them: f1_score, matthews_corrcoef.
TEST(Predictions, MetricsOfTwoClasses) {
  const ClassMetrics metrics = class_metrics(predictions({{1, 1, 6}, {1, 0, 2}, {0, 1, 1}, {0, 0, 3}}), 2);
  EXPECT_NEAR(metrics.f1, 0.8, 1e-12);
  EXPECT_NEAR(metrics.correlation, (6.0 * 3 - 1.0 * 2) / std::sqrt(7.0 * 8 * 4 * 5), 1e-12);
}

TEST(Predictions, MetricsOfSeveralClasses) {
  const auto all = predictions({{0, 0, 2}, {0, 1, 1}, {1, 1, 3}, {2, 2, 1}, {2, 0, 1}});
  const ClassMetrics metrics = class_metrics(all, 3);
  EXPECT_NEAR(metrics.f1, (2.0 / 3 + 6.0 / 7 + 2.0 / 3) / 3, 1e-12);
  EXPECT_NEAR(metrics.correlation, (6.0 * 8 - (3 * 3 + 3 * 4 + 2 * 1)) / std::sqrt((64.0 - 26) * (64.0 - 22)), 1e-12);
  EXPECT_EQ(confusion(all, 3)[2], (std::vector<std::int64_t>{1, 0, 1}));
}

TEST(Predictions, OneAnswerForAllHasNoCorrelation) {
  const ClassMetrics metrics = class_metrics(predictions({{0, 0, 5}, {1, 0, 5}}), 2);
  EXPECT_EQ(metrics.correlation, 0.0);
  EXPECT_EQ(metrics.f1, 0.0);
}

TEST(Predictions, IntervalOfAnAccuracy) {
  Scores scores{.task = Task::classify, .accuracy = 0.375, .examples = 2000};
  EXPECT_NEAR(scores.interval(), 0.0212, 1e-4);
  scores = {.task = Task::classify, .accuracy = 1.0, .examples = 10};
  EXPECT_NEAR(scores.interval(), 0.1388, 1e-4);  // Wilson's is not 0 where all are right
  scores.examples = 0;
  EXPECT_EQ(scores.interval(), 0.0);
}

TEST(Predictions, OfAModelOnADeviceThatTheHostCannotTouch) {
  const Dataset data = tiny::dataset(1, 4, 10);
  const auto of = [&](Context context) {
    const Model model(context, tiny::config("transnormer-t2"));
    return predict(context, model, *data.validation, {.batch = 4});
  };
  const std::vector<Prediction> there = of(Context({.threads = 1, .pages = std::make_shared<testing::FencedMemory>()})),
                                here = of(Context({.threads = 1}));
  ASSERT_EQ(there.size(), 10u);
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].answer, here[i].answer);
    EXPECT_EQ(there[i].given, here[i].given);
    EXPECT_EQ(there[i].confidence, here[i].confidence);
  }
}

}  // namespace
}  // namespace fovea

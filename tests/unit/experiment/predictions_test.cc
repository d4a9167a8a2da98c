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

// As SciPy has them: pearsonr, spearmanr.
TEST(Predictions, CorrelationsOfNumbers) {
  std::vector<NumberPrediction> all;
  for (const auto& [answer, given] : {std::pair(1.0, 2.0), {2.0, 1.0}, {2.0, 4.0}, {4.0, 8.0}, {5.0, 9.0}})
    all.push_back({.answer = answer, .given = given});
  const Correlations found = correlations(all);
  EXPECT_NEAR(found.pearson, 21.8 / std::sqrt(10.8 * 50.8), 1e-12);
  EXPECT_NEAR(found.spearman, 8.0 / std::sqrt(9.5 * 10.0), 1e-12);  // 2.0 comes twice: both have rank 1.5
  for (NumberPrediction& p : all) p.given = 3.0;
  EXPECT_EQ(correlations(all).pearson, 0.0);
  EXPECT_EQ(correlations(all).spearman, 0.0);
}

TEST(Predictions, NumbersAreJudgedByTheirCorrelation) {
  const Scores scores{
      .task = Task::regress, .loss = 0.5, .deviation = 0.4, .pearson = 0.8, .spearman = 0.7, .examples = 103};
  EXPECT_FALSE(scores.classes());
  const std::vector<ScoreColumn> columns = score_columns(scores);
  ASSERT_EQ(columns.size(), 4u);
  EXPECT_EQ(columns[0].value(scores), 0.8);
  EXPECT_NEAR(columns[0].margin(scores), 0.0714, 1e-4);  // (tanh(1.0986 + 0.196) - tanh(1.0986 - 0.196)) / 2
  const Json json = scores_json(scores);
  EXPECT_EQ(json["spearman"], 0.7);
  EXPECT_EQ(json["mse"], 0.5);
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

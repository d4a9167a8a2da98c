#include "experiment/tasks.h"

#include <gtest/gtest.h>

#include <set>

#include "io/json.h"
#include "support/expect_error.h"

namespace fovea {
namespace {

TEST(ArenaTasks, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const ArenaTask& task : arena_tasks()) {
    EXPECT_FALSE(task.title.empty()) << task.name;
    EXPECT_TRUE(names.insert(task.name).second) << task.name << " is there twice";
    EXPECT_EQ(&arena_task(task.name), &task);
  }
  EXPECT_TRUE(names.contains("listops"));
  EXPECT_ERROR(arena_task("lisops"), ErrorCode::usage, "lisops", "lra", "listops");
}

// What a run needs to begin is in the row: settings that can be run, and a budget that ends.
TEST(ArenaTasks, StartRunsOfAnyModel) {
  for (const ArenaTask& task : arena_tasks())
    for (const char* model : {"transformer", "transnormer-t2", "performer"}) {
      const RunSettings run = new_run(task.protocol, {.attention = model});
      EXPECT_EQ(run.name(), model);
      EXPECT_EQ(json_text(write_fields(run.data)), json_text(write_fields(task.protocol.data))) << task.name;
      EXPECT_EQ(json_text(write_fields(run.train)), json_text(write_fields(task.protocol.train.value()))) << task.name;
      EXPECT_TRUE(run.train.minutes > 0.0 || run.train.steps < kNoStepLimit) << task.name;
      EXPECT_EQ(run.model.dropout, 0.0) << task.name;
    }
}

// A published score is of a model that can be run here, and says where it stands and what it took.
TEST(ArenaTasks, PublishedScoresNameTheirModelsSourceAndBudget) {
  for (const ArenaTask& task : arena_tasks()) {
    EXPECT_FALSE(task.published.empty()) << task.name;
    for (const Published& published : task.published) {
      EXPECT_FALSE(published.source.empty()) << task.name;
      EXPECT_GT(published.steps, 0) << published.source;
      EXPECT_GT(published.batch, 0) << published.source;
      std::set<std::string_view> models;
      for (const PublishedScore& score : published.scores) {
        EXPECT_TRUE(models.insert(score.model).second) << published.source << ": " << score.model << " twice";
        EXPECT_NO_THROW(new_run(task.protocol, {.attention = std::string(score.model)})) << score.model;
        EXPECT_GT(score.value, 0.0) << score.model;
        EXPECT_LT(score.value, 1.0) << score.model;
      }
      EXPECT_TRUE(models.contains("transformer")) << published.source;
    }
  }
}

// The metric has the name under which result.json holds it.
TEST(ArenaTasks, MetricsAreScores) {
  for (const ArenaTask& task : arena_tasks()) {
    Scores scores;
    scores.*task.metric.value = 0.25;
    EXPECT_EQ(write_fields(scores).at(std::string(task.metric.name)), 0.25) << task.name;
  }
}

}  // namespace
}  // namespace fovea

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
    for (const TaskProtocol& protocol : task.protocols)
      for (const char* model : {"transformer", "transnormer-t2", "performer"}) {
        const RunSettings run = new_run(protocol.settings, {.attention = model});
        SCOPED_TRACE(std::string(task.name) + " " + std::string(protocol.name) + " " + model);
        EXPECT_EQ(run.name(), model);
        EXPECT_EQ(json_text(write_fields(run.data)), json_text(write_fields(protocol.settings.data)));
        EXPECT_EQ(json_text(write_fields(run.train)), json_text(write_fields(protocol.settings.train.value())));
        EXPECT_TRUE(run.train.minutes > 0.0 || run.train.steps < kNoStepLimit);
        EXPECT_EQ(run.model.task, Task::classify);
        if (protocol.settings.depth > 0) {
          EXPECT_EQ(std::ssize(run.model.layers), protocol.settings.depth);
        }
      }
}

TEST(ArenaTasks, HaveTheProtocolsOfThePaper) {
  const RunSettings text = new_run(arena_task("text").protocol("skyformer"), {.attention = "transnormer-t2"});
  EXPECT_EQ(text.train.steps, 50000);
  EXPECT_EQ(text.train.batch, 16);
  EXPECT_EQ(text.train.clip_value, 1.0);
  EXPECT_EQ(text.model.width, 64);
  EXPECT_EQ(text.model.dropout, 0.1);
  const RunSettings image = new_run(arena_task("image").protocol("official"), {.attention = "transformer"});
  EXPECT_EQ(image.model.layers, std::vector<std::string>{"softmax"});
  EXPECT_EQ(image.train.batch, 256);
  EXPECT_NEAR(image.train.schedule.peak, 5.59e-4, 1e-6);
  const RunSettings pixels = new_run(arena_task("pathfinder").protocol("modern"), {.attention = "transnormer-t2"});
  EXPECT_EQ(pixels.model.positions, Positions::rope);
  EXPECT_EQ(pixels.model.layers[1], pixels.model.layers[0]);
  EXPECT_NE(pixels.model.layers[1], pixels.model.layers[2]);
  EXPECT_ERROR(arena_task("text").protocol("skyforme"), ErrorCode::usage, "skyforme", "--protocol", "skyformer");
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
        EXPECT_NO_THROW(new_run(task.protocol(), {.attention = std::string(score.model)})) << score.model;
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

#include "experiment/comparison.h"

#include <gtest/gtest.h>

#include <atomic>

#include "experiment/run_folder.h"
#include "experiment/run_text.h"
#include "experiment/tasks.h"
#include "io/csv.h"
#include "io/json.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

const std::vector<std::string> kModels{"norm", "diag:block=32"};

RunChoices small(const std::string& out) {
  return {.set = {"model.width=8", "model.inner=8", "data.train=24", "data.validation=6", "data.test=6",
                  "train.eval_every=4", "train.checkpoint_every=3", "train.log_every=2"},
          .out = out,
          .steps = 8,
          .batch = 2,
          .seed = 5};
}

// Remembers what it was told, and may stop a run.
class Watcher : public RunObserver {
 public:
  void on_training(const std::string& name, Task task) override {
    told.push_back("train " + name);
    EXPECT_EQ(task, Task::classify);
  }
  void on_step(const StepReport& report) override {
    ++steps;
    if (told.back() == stop_in && report.step == 5) stop = true;
  }
  void on_trained() override { told.emplace_back("trained"); }
  void on_testing(const std::string& name, std::string_view split) override {
    told.push_back(name + " on " + std::string(split));
  }
  void on_test_progress(std::int64_t done, std::int64_t all) override {
    tested = done;
    EXPECT_EQ(all, 6);
  }
  void on_tested() override { told.emplace_back("tested"); }
  void on_detail(std::string_view text) override { details += text; }

  std::vector<std::string> told;
  std::string stop_in, details;
  std::int64_t steps = 0, tested = 0;
  std::atomic<bool> stop{false};
};

CompareReport compare(const ComparisonPlan& plan, Watcher& watcher) {
  const ContextOptions machine{.threads = 2};
  const Comparison comparison(plan, machine, watcher);
  return comparison.run(
      {.machine = machine, .observer = watcher, .stop = &watcher.stop, .resume_command = "go on in " + plan.folder});
}

ComparisonPlan new_plan(const std::string& out) {
  return plan_comparison(arena_task("listops").protocol(), kModels, small(out));
}

// What does not depend on the clock.
std::string lasting(RunResult result) {
  result.train_seconds = result.eval_seconds = result.input_seconds = 0.0;
  result.peak_memory = 0;
  result.zones.clear();
  return json_text(write_fields(result));
}

TEST(Comparison, TrainsEveryModelAndTellsHowFarItIs) {
  const TemporaryFolder folder;
  Watcher watcher;
  const CompareReport report = compare(new_plan(folder / "cmp"), watcher);
  const std::vector<std::string> expected{"train norm",          "trained", "norm on test",          "tested",
                                          "train diag:block=32", "trained", "diag:block=32 on test", "tested"};
  EXPECT_EQ(watcher.told, expected);
  EXPECT_EQ(watcher.steps, 16);
  EXPECT_EQ(watcher.tested, 6);
  EXPECT_NE(watcher.details.find("listops"), std::string::npos);
  ASSERT_EQ(report.results.size(), 2u);
  const ArenaTask& task = arena_task("listops");
  for (std::size_t i = 0; i < 2; ++i) {
    const RunResult& result = report.results[i];
    EXPECT_EQ(result.name, kModels[i]);
    EXPECT_EQ(result.steps, 8);
    EXPECT_GT(result.scores.loss, 0.0);
    const double score = result.scores.*task.metric.value;
    EXPECT_TRUE(score >= 0.0 && score <= 1.0) << score;
    EXPECT_EQ(lasting(load_fields<RunResult>(folder / ("cmp/" + folder_name(kModels[i])) / kResultFile)),
              lasting(result));
  }
}

TEST(Comparison, GoesOnWhereItWasStopped) {
  const TemporaryFolder folder;
  Watcher straight;
  const CompareReport expected = compare(new_plan(folder / "straight"), straight);

  Watcher first;
  first.stop_in = "train diag:block=32";
  EXPECT_ERROR(compare(new_plan(folder / "cmp"), first), ErrorCode::interrupted, "stopped after step 5",
               "diag-block-32", "go on in " + (folder / "cmp").string());
  const std::string finished = get(folder / "cmp/norm" / kResultFile);

  std::filesystem::rename(folder / "cmp", folder / "moved");
  Watcher second;
  const CompareReport report = compare(load_comparison(folder / "moved"), second);
  EXPECT_EQ(second.told.front(), "train diag:block=32");
  EXPECT_EQ(second.steps, 3);
  EXPECT_EQ(get(folder / "moved/norm" / kResultFile), finished);
  ASSERT_EQ(report.results.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(lasting(report.results[i]), lasting(expected.results[i]));

  Watcher third;
  EXPECT_EQ(compare(load_comparison(folder / "moved"), third).results.size(), 2u);
  EXPECT_TRUE(third.told.empty());
}

TEST(Comparison, IsReportedInTablesAndPictures) {
  const TemporaryFolder folder;
  Watcher watcher;
  CompareReport report = compare(new_plan(folder / "cmp"), watcher);
  report.command = "the command";
  write_comparison(report, folder / "cmp");
  const std::string page = get(folder / "cmp/report.html");
  for (const char* text : {"the command", "norm", "diag:block=32", "most frequent answer", "8 steps"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(read_csv(folder / "cmp/results.csv").rows.size(), 2u);
  for (const char* picture : {"accuracy.png", "loss-by-time.png", "loss-by-step.png"})
    EXPECT_EQ(get(folder / "cmp" / picture).substr(0, 4), "\x89PNG") << picture;
  const Json json = compare_json(report);
  EXPECT_EQ(json.at("results").size(), 2u);
  EXPECT_EQ(json.at("results")[1].at("name"), "diag:block=32");
  EXPECT_EQ(json.at("majority_share"), report.majority);
}

TEST(Comparison, BelongsToOneAtATime) {
  const TemporaryFolder folder;
  const ComparisonPlan plan = new_plan(folder / "cmp");
  Watcher watcher;
  const Comparison comparison(plan, {.threads = 1}, watcher);
  EXPECT_THROW(Comparison(plan, {.threads = 1}, watcher), Error);
}

TEST(Comparison, RefusesWhatCannotBeCompared) {
  const TemporaryFolder folder;
  const Protocol& protocol = arena_task("listops").protocol();
  EXPECT_ERROR(plan_comparison(protocol, {}, {}), ErrorCode::usage, "nothing to compare", "--attention", "");
  EXPECT_ERROR(plan_comparison(protocol, {"norm", "norm"}, {}), ErrorCode::usage, "twice", "--attention", "norm,norm");
  EXPECT_ERROR(plan_comparison(protocol, {"nrm"}, {}), ErrorCode::usage, "nrm", "", "norm");
  put(folder / "other", "a file");
  EXPECT_ERROR(new_plan(folder.path()), ErrorCode::usage, "not empty", "--out", "nothing is overwritten");
  EXPECT_ERROR(load_comparison(folder.path()), ErrorCode::bad_input, "no comparison", "--resume", "--out");
  put(folder / kComparisonFile, R"({"models": ["norm"], "runs": []})");
  EXPECT_ERROR(load_comparison(folder.path()), ErrorCode::bad_input, "every model", "runs", "");
}

}  // namespace
}  // namespace fovea

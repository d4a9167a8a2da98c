#include "experiment/comparison.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "experiment/compare_tables.h"
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
  comparison.run(
      {.machine = machine, .observer = watcher, .stop = &watcher.stop, .resume_command = "go on in " + plan.folder});
  return comparison.report();
}

ComparisonPlan new_plan(const std::string& out, std::vector<std::uint64_t> seeds = {}) {
  return plan_comparison(arena_task("listops").protocol(),
                         {.task = "listops", .attention = kModels, .seeds = std::move(seeds), .run = small(out)});
}

// What does not depend on the clock.
std::string lasting(RunResult result) {
  result.train_seconds = result.eval_seconds = result.input_seconds = 0.0;
  result.peak_memory = 0;
  result.other_load = 0.0;
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
  ASSERT_EQ(report.rivals.size(), 2u);
  const ArenaTask& task = arena_task("listops");
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(report.rivals[i].results.size(), 1u);
    const RunResult& result = report.rivals[i].results.front();
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
  ASSERT_EQ(report.rivals.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(lasting(report.rivals[i].results.at(0)), lasting(expected.rivals[i].results.at(0)));

  Watcher third;
  EXPECT_EQ(compare(load_comparison(folder / "moved"), third).finished(), 2);
  EXPECT_TRUE(third.told.empty());
}

TEST(Comparison, IsReportedInTablesAndPictures) {
  const TemporaryFolder folder;
  Watcher watcher;
  CompareReport report = compare(new_plan(folder / "cmp"), watcher);
  report.command = "the command";
  write_comparison(report, folder / "cmp");
  const std::string page = get(folder / "cmp/report.html");
  for (const char* text :
       {"the command", "norm", "diag:block=32", "most frequent answer", "8 steps", "seed 5", "batch 2", "What it took",
        "Settings that differ", "model.layers", "Where the time of a step goes", "tokens seen"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(read_csv(folder / "cmp/results.csv").rows.size(), 2u);
  for (const char* picture : {"accuracy.png", "speed.png", "loss-by-time.png", "loss-by-tokens.png", "time.png"})
    EXPECT_EQ(get(folder / "cmp" / picture).substr(0, 4), "\x89PNG") << picture;
  const Json json = compare_json(report);
  EXPECT_EQ(json.at("results").size(), 2u);
  EXPECT_EQ(json.at("results")[1].at("name"), "diag:block=32");
  EXPECT_EQ(json.at("majority_share"), report.majority);
  EXPECT_EQ(json.at("models")[0].at("accuracy").at("mean"), report.rivals[0].results[0].scores.accuracy);
}

TEST(Comparison, TrainsEveryModelWithEverySeed) {
  const TemporaryFolder folder;
  Watcher first;
  first.stop_in = "train norm seed 4";
  const ComparisonPlan plan = new_plan(folder / "cmp", {2, 4});
  EXPECT_EQ(plan.run(1, 0).train.out, (folder / "cmp/diag-block-32/seed-2").string());
  EXPECT_ERROR(compare(plan, first), ErrorCode::interrupted, "stopped after step 5", "norm/seed-4", "go on");
  const std::vector<std::string> order{"train norm seed 2", "trained", "norm seed 2 on test", "tested",
                                       "train diag:block=32 seed 2"};
  EXPECT_EQ(std::vector(first.told.begin(), first.told.begin() + 5), order);

  Watcher second;
  const CompareReport report = compare(load_comparison(folder / "cmp"), second);
  EXPECT_EQ(second.told.front(), "train norm seed 4");
  ASSERT_EQ(report.rivals.size(), 2u);
  EXPECT_EQ(report.finished(), 4);
  const RivalReport& norm = report.rivals.front();
  EXPECT_EQ(norm.results[0].seed, 2u);
  EXPECT_EQ(norm.results[1].seed, 4u);
  EXPECT_NE(norm.results[0].scores.loss, norm.results[1].scores.loss);
  EXPECT_EQ(json_text(write_fields(norm.settings[0].data)), json_text(write_fields(norm.settings[1].data)));
  const Estimate loss = estimate_of(report, norm, score_columns(report.scores()).back());
  EXPECT_DOUBLE_EQ(loss.value, 0.5 * (norm.results[0].scores.loss + norm.results[1].scores.loss));
  const auto gap = [&](std::size_t m) {
    return report.rivals[m].results[0].scores.loss - report.rivals[m].results[1].scores.loss;
  };
  const double pooled = std::sqrt((std::pow(gap(0), 2) + std::pow(gap(1), 2)) / 4.0);  // sample deviation, two of two
  EXPECT_GE(loss.margin, 4.30 * pooled / std::sqrt(2.0));
  write_comparison(report, folder / "cmp");
  const std::string page = get(folder / "cmp/report.html");
  for (const char* text : {"seeds 2, 4", "over seeds", "Every run", "mean over the seeds"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(read_csv(folder / "cmp/results.csv").rows.size(), 4u);
}

TEST(Comparison, ModelsAndMechanismsMakePairs) {
  const auto names = [](std::vector<std::string> models, std::vector<std::string> attention) {
    const TemporaryFolder folder;
    return plan_comparison({}, {.models = std::move(models),
                                .attention = std::move(attention),
                                .run = {.out = folder / "cmp", .steps = 3}})
        .models;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({"gpt", "llama"}, {}), (Names{"gpt", "llama"}));
  EXPECT_EQ(names({"gpt"}, {"softmax", "norm"}), (Names{"softmax", "norm"}));
  EXPECT_EQ(names({"gpt", "llama"}, {"norm"}), (Names{"gpt", "llama"}));
  EXPECT_EQ(names({"gpt", "llama"}, {"norm", "diag/norm*3"}),
            (Names{"gpt norm", "gpt diag/norm*3", "llama norm", "llama diag/norm*3"}));
}

TEST(Comparison, HasPublishedScoresAndLengthsBesideOurs) {
  RunResult result;
  result.scores = {.accuracy = 0.4, .examples = 2000};
  result.steps = 300;
  result.by_length = {{10, 20, 400, 0.5}, {21, 60, 400, 0.3}};
  RunSettings settings;
  settings.train.batch = 16;
  CompareReport report{.task = "listops",
                       .rivals = {{"softmax", {settings}, {result}}, {"rela", {settings}, {result}}}};
  const std::string published = published_table(report).value().text({.width = 200});
  EXPECT_NE(published.find("38.4"), std::string::npos) << published;  // of the transformer
  EXPECT_NE(published.find("300 steps of 16"), std::string::npos) << published;
  EXPECT_EQ(published.find("rela"), std::string::npos) << published;  // of which nothing is published
  const std::string lengths = length_table(report).value().text({.width = 200});
  EXPECT_NE(lengths.find("21 to 60"), std::string::npos) << lengths;
  EXPECT_NE(lengths.find("50.0 ± 4.9"), std::string::npos) << lengths;
  EXPECT_FALSE(settings_table(report).has_value());
  report.task.clear();
  EXPECT_FALSE(published_table(report).has_value());
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
  EXPECT_ERROR(plan_comparison(protocol, {}), ErrorCode::usage, "nothing to compare", "--attention", "fovea compare");
  EXPECT_ERROR(plan_comparison(protocol, {.attention = {"norm", "norm"}}), ErrorCode::usage, "twice", "--attention",
               "--seeds");
  EXPECT_ERROR(plan_comparison(protocol, {.attention = {"nrm"}}), ErrorCode::usage, "nrm", "", "norm");
  put(folder / "other", "a file");
  EXPECT_ERROR(require_new_folder(new_plan(folder.path()).folder), ErrorCode::usage, "not empty", "--out",
               "nothing is overwritten");
  EXPECT_ERROR(load_comparison(folder.path()), ErrorCode::bad_input, "no comparison", "--resume", "--out");
  put(folder / kComparisonFile, R"({"models": ["norm"], "runs": []})");
  EXPECT_ERROR(load_comparison(folder.path()), ErrorCode::bad_input, "every model", "runs", "");
}

}  // namespace
}  // namespace fovea

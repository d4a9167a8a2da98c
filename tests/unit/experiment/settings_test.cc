#include "experiment/settings.h"

#include <gtest/gtest.h>

#include "experiment/tasks.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

TEST(Settings, WithoutAProtocolTrainingSuitsTheModel) {
  const RunSettings run = new_run({}, {.model = "gpt"});
  EXPECT_EQ(json_text(write_fields(run.train)), json_text(write_fields(TrainConfig::usual(run.model))));
}

TEST(Settings, ChoicesChangeTheProtocolInTheirOrder) {
  const TemporaryFolder folder;
  const Protocol& protocol = arena_task("listops").protocol();
  put(folder / "run.json", R"({"train": {"batch": 3, "warmup": 7, "lr": 0.5}, "model": {"dropout": 0.25}})");
  RunChoices choices{.config = folder / "run.json", .set = {"train.batch=4", "train.lr=0.25"}, .attention = "norm"};
  choices.batch = 5;
  choices.dtype = DType::bf16;
  const RunSettings run = new_run(protocol, choices);
  EXPECT_EQ(run.train.schedule.warmup, 7);
  EXPECT_EQ(run.train.schedule.peak, 0.25);
  EXPECT_EQ(run.train.batch, 5);
  EXPECT_EQ(run.train.minutes, protocol.train->minutes);
  EXPECT_EQ(run.model.dropout, 0.25);       // as the file has it
  EXPECT_NE(run.model.inner_dropout, 0.0);  // the protocol's changes are for runs without a file
  EXPECT_EQ(run.model.dtype, DType::bf16);
}

TEST(Settings, OfStepsAndMinutesOneEndsARun) {
  const Protocol& protocol = arena_task("listops").protocol();
  EXPECT_EQ(new_run(protocol, {.attention = "norm", .steps = 9}).train.minutes, 0.0);
  const RunSettings timed = new_run(protocol, {.attention = "norm", .minutes = 3.0});
  EXPECT_EQ(timed.train.minutes, 3.0);
  EXPECT_EQ(timed.train.steps, kNoStepLimit);
}

TEST(Settings, TokensEndARunAlone) {
  const RunSettings run = new_run(arena_task("listops").protocol(), {.attention = "norm", .tokens = 5000});
  EXPECT_EQ(run.train.tokens, 5000);
  EXPECT_EQ(run.train.minutes, 0.0);
  EXPECT_EQ(run.train.steps, kNoStepLimit);
}

TEST(Settings, EvaluationsAreSpreadOverTheBudget) {
  const auto train = [](RunChoices choices) {
    choices.model = "gpt";
    return new_run({}, choices).train;
  };
  const TrainConfig by_steps = train({.steps = 9});
  EXPECT_EQ(by_steps.evaluations, 0);
  EXPECT_EQ(by_steps.eval_every, TrainConfig{}.eval_every);
  for (const TrainConfig& config : {train({.minutes = 1.0}), train({.tokens = 100})}) {
    EXPECT_EQ(config.evaluations, 10);
    EXPECT_EQ(config.eval_every, 0);
  }
  const TrainConfig compared = train({.steps = 9, .compared = true});
  EXPECT_EQ(compared.evaluations, 10);
  EXPECT_EQ(compared.eval_every, 0);
  EXPECT_EQ(train({.set = {"train.eval_every=7"}, .steps = 9, .compared = true}).evaluations, 0);
  EXPECT_EQ(train({.steps = 1000 * TrainConfig{}.eval_every, .compared = true}).evaluations, 0);  // there are enough
  const TrainConfig named = train({.set = {"train.eval_every=7"}, .minutes = 1.0});
  EXPECT_EQ(named.evaluations, 0);
  EXPECT_EQ(named.eval_every, 7);
  const TrainConfig fewer = train({.set = {"train.evaluations=3"}, .steps = 9});
  EXPECT_EQ(fewer.evaluations, 3);
  EXPECT_EQ(fewer.eval_every, 0);
}

// A run that goes on keeps what it was trained with, and only what is chosen changes.
TEST(Settings, ChangedRunKeepsItsTraining) {
  const RunSettings before = new_run(arena_task("listops").protocol(), {.attention = "norm", .steps = 9});
  const RunSettings after = changed_run(before, {.steps = 20});
  EXPECT_EQ(after.train.steps, 20);
  RunSettings expected = before;
  expected.train.steps = 20;
  EXPECT_EQ(json_text(write_fields(after)), json_text(write_fields(expected)));
}

TEST(Settings, RefuseTwoChoicesOfTheLayers) {
  const TemporaryFolder folder;
  put(folder / "run.json", R"({"model": {"layers": ["norm"]}})");
  EXPECT_ERROR(new_run({}, {.config = folder / "run.json", .attention = "softmax"}), ErrorCode::usage, "both",
               "model.layers", "--set model.layers=softmax");
}

}  // namespace
}  // namespace fovea

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/train.h"
#include "io/csv.h"
#include "io/fields.h"
#include "support/expect_error.h"
#include "support/fenced_memory.h"
#include "support/temporary_folder.h"
#include "support/tiny_run.h"
#include "train/budget.h"

namespace fovea {
namespace {

using tiny::quick;
using tiny::TinyRun;

TEST(Trainer, ReportsStepsEvaluationsAndCheckpoints) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.checkpoint_every = 4;
  TinyRun run(config);
  const TrainResult result = run.go();
  EXPECT_EQ(result.reason, StopReason::steps);
  EXPECT_EQ(result.steps, 10);
  ASSERT_EQ(run.steps.size(), 10u);
  EXPECT_EQ(run.steps[0].step, 1);
  EXPECT_EQ(run.steps[9].epoch, 1);  // 40 examples, 6 a step: the seventh step ends the first epoch
  EXPECT_DOUBLE_EQ(run.steps[9].progress, 1.0);
  EXPECT_DOUBLE_EQ(run.steps[2].rate, 2e-3);
  EXPECT_GT(run.steps[0].gradient_norm, 0.0);
  ASSERT_EQ(run.evaluations.size(), 2u);
  EXPECT_EQ(run.evaluations[1].step, 10);
  EXPECT_EQ(run.evaluations[1].examples, 8);
  EXPECT_EQ(run.validated.back(), (std::pair<std::int64_t, std::int64_t>{8, 8}));
  ASSERT_GE(run.checkpoints.size(), 4u);
  EXPECT_EQ(run.checkpoints[0], "last");  // after step 4
  EXPECT_EQ(run.checkpoints[1], "best");  // the first evaluation, after step 5
  EXPECT_EQ(std::count(run.checkpoints.begin(), run.checkpoints.end(), "last"), 3);  // 4, 8 and the end
  EXPECT_EQ(result.resume_from, (folder / "run/last").string());
}

TEST(Trainer, WritesMetrics) {
  const TemporaryFolder folder;
  TinyRun run(quick(folder / "run"));
  run.go();
  const CsvTable table = read_csv(folder / "run/metrics.csv");
  EXPECT_EQ(table.rows.size(), 7u);  // five of training, two of evaluation
  EXPECT_EQ(table.numbers("step").front(), 2.0);
  EXPECT_DOUBLE_EQ(table.numbers("loss").front(), (run.losses[0] + run.losses[1]) / 2);
  EXPECT_EQ(table.rows.back()[1], "validation");
}

TEST(Trainer, ZonesAddUpToTheTrainingTime) {
  TinyRun run(quick());
  const TrainResult result = run.go();
  double sum = 0.0;
  for (const ZoneTime& zone : result.zones) {
    EXPECT_GE(zone.seconds, 0.0) << zone.name;
    sum += zone.seconds;
  }
  EXPECT_GT(sum, 0.98 * result.train_seconds);
  EXPECT_LE(sum, result.train_seconds * 1.001);
}

TEST(Trainer, WithoutAFolderNothingIsWritten) {
  TinyRun run(quick());
  const TrainResult result = run.go();
  EXPECT_TRUE(run.checkpoints.empty());
  EXPECT_TRUE(result.resume_from.empty());
}

TEST(Trainer, Learns) {
  TrainConfig config = quick();
  config.steps = 60;
  config.batch = 20;
  config.schedule = {ScheduleKind::cosine, 5e-3, 10};
  config.eval_every = 0;
  TinyRun run(config, tiny::without_dropout(tiny::config("transnormer-t2")));
  const TrainResult result = run.go();
  EXPECT_LT(run.losses.back(), 0.5 * run.losses.front());
  EXPECT_EQ(run.evaluations.size(), 1u);
  EXPECT_EQ(result.last.step, 60);
}

TEST(Trainer, AccumulatedPartsGiveTheStepOfTheWholeBatch) {
  std::vector<std::vector<std::vector<float>>> results;
  for (const std::int64_t parts : {1, 3}) {
    TrainConfig config = quick();
    config.accumulation = parts;
    config.steps = 3;
    TinyRun run(config, tiny::without_dropout(tiny::config("transformer")));
    run.go();
    results.push_back(run.parameters());
  }
  for (std::size_t p = 0; p < results[0].size(); ++p)
    for (std::size_t i = 0; i < results[0][p].size(); ++i) ASSERT_NEAR(results[0][p][i], results[1][p][i], 2e-4) << p;
}

TEST(Trainer, TheClockEndsTheRun) {
  TrainConfig config = quick();
  config.steps = 1'000'000;
  config.minutes = 1.5 / 60.0;
  config.eval_every = 0;
  TinyRun run(config);
  const TrainResult result = run.go();
  EXPECT_EQ(result.reason, StopReason::minutes);
  EXPECT_GE(result.train_seconds, 1.5);
  EXPECT_DOUBLE_EQ(run.steps.back().progress, 1.0);
}

TEST(Budget, TheClockBendsTheSchedule) {
  const Budget budget{.steps = 1'000'000, .minutes = 1.0};
  EXPECT_DOUBLE_EQ(budget.expected_steps({}), 1e6);  // nothing known yet
  EXPECT_DOUBLE_EQ(budget.expected_steps({100, 30.0}), 200.0);
  EXPECT_DOUBLE_EQ(budget.progress({100, 30.0}), 0.5);
  EXPECT_FALSE(budget.over({100, 59.9}).has_value());
  EXPECT_EQ(budget.over({100, 60.0}), StopReason::minutes);
  const Schedule schedule{ScheduleKind::one_cycle, 2e-3, 20};
  const double early = schedule.rate(21, budget.expected_steps({20, 6.0}));
  const double late = schedule.rate(196, budget.expected_steps({195, 58.5}));
  EXPECT_LT(late, 0.05 * early);  // although the last of a million steps is far away
}

TEST(Budget, StepsEndARunThatIsFasterThanItsClock) {
  const Budget budget{.steps = 10, .minutes = 1.0};
  EXPECT_DOUBLE_EQ(budget.expected_steps({5, 1.0}), 10.0);
  EXPECT_DOUBLE_EQ(budget.progress({5, 1.0}), 0.5);
  EXPECT_EQ(budget.over({10, 2.0}), StopReason::steps);
  const Budget endless{.steps = 10, .minutes = 0.0};
  EXPECT_DOUBLE_EQ(endless.progress({5, 1e9}), 0.5);
  EXPECT_FALSE(endless.over({9, 1e9}).has_value());
}

TEST(Budget, TokensEndARunAndBendItsSchedule) {
  const Budget budget{.steps = 1'000'000, .tokens = 1000};
  EXPECT_DOUBLE_EQ(budget.expected_steps({10, 5.0, 250}), 40.0);
  EXPECT_DOUBLE_EQ(budget.progress({10, 5.0, 250}), 0.25);
  EXPECT_FALSE(budget.over({39, 9.0, 999}).has_value());
  EXPECT_EQ(budget.over({40, 9.0, 1003}), StopReason::tokens);
  EXPECT_EQ(budget.parts({10, 5.0, 299}, 10), 2);
  EXPECT_EQ(budget.parts({10, 5.0, 300}, 10), 3);
}

TEST(Trainer, EvaluationsAreSpreadOverTheBudgetWhateverItCounts) {
  for (const bool by_tokens : {false, true}) {
    TrainConfig config = quick();
    config.eval_every = 0;
    config.evaluations = 4;
    if (!by_tokens) config.steps = 10;
    if (by_tokens) config.steps = 1'000'000, config.tokens = 1500;
    TinyRun run(config);
    const TrainResult result = run.go();
    ASSERT_EQ(run.evaluations.size(), 4u) << by_tokens;
    for (std::size_t i = 0; i < 4; ++i) {
      const EvalReport& eval = run.evaluations[i];
      const double quarter = 0.25 * static_cast<double>(i + 1);
      if (by_tokens) {
        EXPECT_GE(eval.tokens, static_cast<std::int64_t>(1500 * quarter));
      } else {
        EXPECT_EQ(eval.step, static_cast<std::int64_t>(std::ceil(10 * quarter)));
      }
      EXPECT_EQ(eval.tokens, run.steps[static_cast<std::size_t>(eval.step) - 1].all_tokens);
    }
    EXPECT_EQ(result.reason, by_tokens ? StopReason::tokens : StopReason::steps);
    EXPECT_EQ(result.tokens, run.evaluations.back().tokens);
  }
}

TEST(Trainer, StopsAtNumbersThatAreNotFiniteAndKeepsTheGoodState) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.checkpoint_every = 2;
  config.steps = 2;
  TinyRun good(config);
  good.go();
  config.steps = 10;
  TinyRun bad(config);
  bad.trainer.resume(folder / "run");
  for (const Parameter& p : bad.model.parameters())
    if (p.name == "classifier.out.weight") p.var.value().fill(std::nan(""));
  const std::string before = get(folder / "run/last/model.safetensors");
  EXPECT_ERROR(bad.go(), ErrorCode::diverged, "model: not finite: the result of linear, shape (6, 10)", "step 3",
               "run/last");
  EXPECT_EQ(get(folder / "run/last/model.safetensors"), before);
}

// The layer is named too, and what went wrong in it.
TEST(Trainer, NamesTheLayerThatDiverged) {
  TinyRun run(quick());
  for (const Parameter& p : run.model.parameters())
    if (p.name == "layers.1.attention.out.weight") p.var.value().fill(3e38);
  EXPECT_ERROR(run.go(), ErrorCode::diverged, "model.layers[1]", "step 1", "train.lr");
}

// Gradients that overflow in f16 skip the step: nothing changes but the scale, and the run counts them.
TEST(Trainer, SkipsStepsThatOverflowInF16) {
  ModelConfig model = tiny::config("transformer");
  model.dtype = DType::f16;
  TrainConfig config = quick();
  config.steps = 40;
  TinyRun run(config, model);
  for (const Parameter& p : run.model.parameters())
    for (std::int64_t i = 0; p.name == "classifier.out.weight" && i < p.var.value().numel(); ++i)
      p.var.value().data<float>()[i] = i % 2 == 0 ? 30.0f : -30.0f;
  const TrainResult result = run.go();
  std::int64_t skipped = 0;
  for (const StepReport& report : run.steps) {
    skipped += report.skipped;
    EXPECT_GT(report.loss_scale, 0.0);
  }
  EXPECT_EQ(result.skipped, skipped);
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 20);
  EXPECT_TRUE(std::isfinite(run.losses.back()));
}

// Takes all memory after a step.
class MemoryHog : public TrainObserver {
 public:
  MemoryHog(const Context& context, std::int64_t after) : context_(context), after_(after) {}
  void on_step(const StepReport& report) override {
    if (report.step != after_) return;
    const Allocator& all = *context_.allocator();
    held_ = Tensor::empty(context_, {static_cast<std::int64_t>((all.limit() - all.total().now) * 3 / 4)}, DType::u8);
  }

 private:
  const Context& context_;
  std::int64_t after_;
  Tensor held_;
};

TEST(Trainer, KeepsWhatWasReachedWhenMemoryEnds) {
  const TemporaryFolder folder;
  const TrainConfig config = quick(folder / "run");
  const auto weights = [](const Model& model) {
    std::vector<std::vector<float>> values;
    for (const Parameter& p : model.parameters()) values.push_back(p.var.value().to_vector<float>());
    return values;
  };
  {
    Context context({.threads = 2, .seed = config.seed, .memory = {.limit = std::size_t{8} << 20}});
    const Dataset data = tiny::dataset(1, 40, 10);
    Model model(context, tiny::config("transnormer-t2"));
    Trainer trainer(context, model, data, config);
    MemoryHog hog(context, 3);
    trainer.add(hog);
    EXPECT_ERROR(trainer.run(), ErrorCode::out_of_memory, "more asked for", "model",
                 "; step 3 is in " + (folder / "run/last").string());
  }
  TinyRun rest(config), whole(quick());
  rest.trainer.resume(folder / "run");
  EXPECT_EQ(rest.go().steps, 10);
  whole.go();
  EXPECT_EQ(weights(rest.model), weights(whole.model));
}

// A card that stops answering after a step: the host finds out when it reads.
class LosingMemory : public testing::FencedMemory {
 public:
  void read(void* host, const void* from, std::size_t bytes) override {
    if (lost) fail(ErrorCode::internal, "the card stopped", "a copy from the card", "start again from what was saved");
    FencedMemory::read(host, from, bytes);
  }
  bool lost = false;
};

class Loser : public TrainObserver {
 public:
  Loser(LosingMemory& memory, std::int64_t after) : memory_(memory), after_(after) {}
  void on_step(const StepReport& report) override { memory_.lost = report.step == after_; }

 private:
  LosingMemory& memory_;
  std::int64_t after_;
};

// In a step, in the evaluation behind step 5, in the checkpoint behind step 6.
TEST(Trainer, TellsWhatIsSavedWhenACardIsLost) {
  for (const auto& [after, kept] : {std::pair<std::int64_t, std::int64_t>{4, 3}, {5, 3}, {6, 3}, {7, 6}}) {
    SCOPED_TRACE("lost after step " + std::to_string(after));
    const TemporaryFolder folder;
    TrainConfig config = quick(folder / "run");
    config.checkpoint_every = 3;
    const auto memory = std::make_shared<LosingMemory>();
    {
      Context context({.threads = 2, .seed = config.seed, .pages = memory});
      const Dataset data = tiny::dataset(1, 40, 10);
      Model model(context, tiny::config("transformer"));
      Trainer trainer(context, model, data, config);
      Loser loser(*memory, after);
      trainer.add(loser);
      EXPECT_ERROR(
          trainer.run(), ErrorCode::internal, "the card stopped", "a copy from the card",
          "start again from what was saved; step " + std::to_string(kept) + " is in " + (folder / "run/last").string());
    }
    TinyRun rest(config, tiny::config("transformer")), whole(quick(), tiny::config("transformer"));
    rest.trainer.resume(folder / "run");
    EXPECT_EQ(rest.go().steps, 10);
    whole.go();
    EXPECT_EQ(rest.parameters(), whole.parameters());
  }
}

// An evaluation that finds no memory loses no step.
TEST(Trainer, KeepsWhatWasReachedWhenMemoryEndsInAnEvaluation) {
  const TemporaryFolder folder;
  const TrainConfig config = quick(folder / "run");
  Context context({.threads = 2, .seed = config.seed, .memory = {.limit = std::size_t{8} << 20}});
  const Dataset data = tiny::dataset(1, 40, 10);
  Model model(context, tiny::config("transnormer-t2"));
  Trainer trainer(context, model, data, config);
  MemoryHog hog(context, 5);
  trainer.add(hog);
  EXPECT_ERROR(trainer.run(), ErrorCode::out_of_memory, "more asked for", "model",
               "; step 5 is in " + (folder / "run/last").string());
}

TEST(Trainer, StopsWhenNothingGetsBetter) {
  TrainConfig config = quick();
  config.steps = 1000;
  config.eval_every = 1;
  config.patience = 3;
  config.schedule.peak = 1e-12;  // nothing is learned
  TinyRun run(config);
  const TrainResult result = run.go();
  EXPECT_EQ(result.reason, StopReason::patience);
  EXPECT_EQ(result.steps, result.best.step + 3);
}

// The average is what is evaluated and kept as the best, and training goes on from the parameters themselves.
TEST(Trainer, EvaluatesTheAverage) {
  const TemporaryFolder folder;
  TrainConfig config = quick(folder / "run");
  config.average = Averaging::exponential;
  TinyRun averaged(config), plain(quick());
  averaged.go();
  plain.go();
  EXPECT_EQ(averaged.losses, plain.losses);
  EXPECT_EQ(averaged.parameters(), plain.parameters());
  EXPECT_NE(averaged.evaluations.back().loss, plain.evaluations.back().loss);
  const Model best = load_model(averaged.context, folder / "run/best");
  double expected = 0.0;
  for (const EvalReport& report : averaged.evaluations)
    if (report.best) expected = report.loss;
  EXPECT_EQ(evaluate(averaged.context, best, *averaged.data.validation, {.examples = 8}).loss, expected);
}

TEST(Trainer, ReportsNoMoreWaitingThanTime) {
  TinyRun run(quick());
  const TrainResult result = run.go();
  EXPECT_GE(result.input_seconds, 0.0);
  EXPECT_LE(result.input_seconds, result.train_seconds);
}

TEST(Trainer, RefusesWhatDoesNotFitTogether) {
  TrainConfig config = quick();
  config.accumulation = 4;
  EXPECT_ERROR(TinyRun{config}, ErrorCode::usage, "does not divide", "accumulation", "");
  ModelConfig model = tiny::config("transformer");
  model.classes = 3;
  EXPECT_ERROR((TinyRun{quick(), model}), ErrorCode::usage, "3 classes, but tiny has 10", "model.classes", "");
  model = tiny::config("transformer");
  model.vocabulary = 9;
  EXPECT_ERROR((TinyRun{quick(), model}), ErrorCode::usage, "9 token ids", "model.vocabulary", "");
  TinyRun run(quick());
  config = quick();
  config.seed = 1234;
  EXPECT_ERROR(Trainer(run.context, run.model, run.data, config), ErrorCode::usage, "seed", "train.seed", "");
}

TEST(Trainer, DoesNotWriteOverAnEarlierRun) {
  const TemporaryFolder folder;
  TinyRun(quick(folder / "run")).go();
  const std::string before = get(folder / "run/metrics.csv");
  TinyRun again(quick(folder / "run"));
  EXPECT_ERROR(again.go(), ErrorCode::usage, "already holds a run", "run", "resume");
  EXPECT_EQ(get(folder / "run/metrics.csv"), before);
}

TEST(Trainer, FailsClearlyWhereNothingCanBeWritten) {
  const TemporaryFolder folder;
  put(folder / "file", "x");
  TinyRun run(quick(folder / "file/run"));
  EXPECT_THROW(run.go(), Error);
  EXPECT_EQ(get(folder / "file"), "x");
}

TEST(TrainConfig, ReadsAndWritesItselfAndRefusesUnknownKeys) {
  TrainConfig config = quick("somewhere");
  config.adamw.weight_decay = 0.25;
  TrainConfig again;
  read_fields(again, write_fields(config), "test");
  EXPECT_EQ(write_fields(again), write_fields(config));
  RunConfig run;
  set_fields(run, std::vector<std::string>{"train.lr=3e-4", "train.schedule=cosine", "model.layers=diag/norm"});
  EXPECT_DOUBLE_EQ(run.train.schedule.peak, 3e-4);
  EXPECT_EQ(run.train.schedule.kind, ScheduleKind::cosine);
  EXPECT_ERROR(set_fields(run, std::vector<std::string>{"train.warmpu=3"}), ErrorCode::usage, "warmpu", "train",
               "warmup");
  EXPECT_ERROR(set_fields(run, std::vector<std::string>{"train.beta1=1"}), ErrorCode::usage, "1", "train.beta1", "");
}

TEST(TrainConfig, HasUsualSettingsForEveryPreset) {
  for (const std::string_view name : ModelConfig::preset_names()) {
    const ModelConfig model = ModelConfig::preset(name);
    const TrainConfig config = TrainConfig::usual(model);
    EXPECT_NO_THROW(config.check()) << name;
    EXPECT_GE(config.schedule.peak, 1e-4) << name;
    EXPECT_EQ(config.label_smoothing > 0.0, model.task == Task::seq2seq) << name;
  }
  const auto rate = [](std::string_view name) { return TrainConfig::usual(ModelConfig::preset(name)).schedule.peak; };
  EXPECT_DOUBLE_EQ(rate("transformer"), TrainConfig().schedule.peak);
  EXPECT_NEAR(rate("gpt2-small"), rate("gpt") / 3.0, 1e-12);
  EXPECT_DOUBLE_EQ(rate("informer-forecast"), 1e-4);
  EXPECT_DOUBLE_EQ(rate("memformer-forecast"), 2e-3);  // a thousandth of its parameters
}

TEST(Evaluate, CountsEveryExampleOnceWhateverTheBatch) {
  TinyRun run(quick());
  const EvalReport whole = evaluate(run.context, run.model, *run.data.validation, {.batch = 100});
  const EvalReport pieces = evaluate(run.context, run.model, *run.data.validation, {.batch = 3});
  EXPECT_EQ(whole.examples, 10);
  EXPECT_EQ(pieces.examples, 10);
  EXPECT_EQ(whole.accuracy, pieces.accuracy);
  EXPECT_NEAR(whole.loss, pieces.loss, 1e-5);
  EXPECT_NEAR(whole.loss, std::log(10.0), 0.5);  // an untrained model knows nothing
  EXPECT_EQ(evaluate(run.context, run.model, *labelled_split({})).examples, 0);
  const std::atomic<bool> stop{true};
  EXPECT_EQ(evaluate(run.context, run.model, *run.data.validation, {.batch = 3, .stop = &stop}).examples, 0);
}

}  // namespace
}  // namespace fovea

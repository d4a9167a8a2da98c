#include <fmt/format.h>

#include "experiment/reproduce/study.h"
#include "experiment/tasks.h"

// What other documents compare: softmax variants, positions, norms, equal time, forecasts.
namespace fovea {
namespace {

constexpr const char* kNoNumbers = "none: compared here for the first time";

// Characters of Tiny Shakespeare, the gpt preset.
Trial character_trial(std::string name) {
  Trial trial{.name = std::move(name), .data = {"tinyshakespeare"}};
  TrainConfig train;
  train.steps = 2500;
  train.batch = 8;
  train.schedule = {.kind = ScheduleKind::one_cycle, .peak = 1e-3, .warmup = 100};
  train.clip_value = 0.0;
  train.clip_norm = 1.0;
  train.eval_every = 250;
  train.eval_examples = 0;
  train.keep = 1;
  trial.protocol.train = train;
  trial.protocol.task = Task::lm;
  trial.protocol.data.length = 256;
  trial.quick.set = {"train.steps=300",           "train.lr=2e-3",       "train.warmup=30",
                     "train.eval_every=100",      "model.width=128",     "model.heads=2",
                     "model.inner=512",           "model.dropout=0",     "model.inner_dropout=0",
                     "model.attention_dropout=0", "data.validation=100", "data.test=100"};
  trial.quick.depth = 4;
  return trial;
}

Study character_study(std::string name, std::string title) {
  Study study{.name = std::move(name), .title = std::move(title), .source = kNoNumbers};
  study.trials = {character_trial("characters")};
  study.columns = {{"validation perplexity", 0, "validation_perplexity", Quantity::number, Best::lowest},
                   {"test perplexity", 0, "perplexity", Quantity::number, Best::lowest}};
  return study;
}

Study softmax_variants() {
  Study study = character_study("softmax-variants", "Softmax and what stands in its place, as language models");
  for (const char* name : {"softmax", "taylor", "topk", "sparsemax", "entmax15", "margin", "rela", "relu2",
                           "sa-softmax", "sa-softmax:variant=normalized", "sigmoid"})
    study.rows.push_back({.name = name, .model = "gpt", .attention = name});
  return study;
}

Study positions() {
  Study study = character_study("positions", "Positional encodings of a language model");
  for (const PositionKind& kind : position_kinds())
    study.rows.push_back({.name = std::string(kind.name),
                          .model = "gpt",
                          .attention = "softmax",
                          .set = {fmt::format("model.positions={}", kind.name)}});
  return study;
}

Study norm_placement() {
  Study study = character_study("norm-placement", "Norm before or after each layer, with and without warm-up");
  study.note = "8 layers at a rate of 2e-3.";
  study.trials[0].quick.depth = 8;
  study.trials[0].quick.set.emplace_back("train.steps=200");
  study.trials[0].protocol.depth = 8;
  study.trials[0].protocol.train->schedule.peak = 2e-3;
  for (const char* placement : {"pre", "post"})
    for (const bool warm : {true, false}) {
      const std::string warmup = warm ? "train.warmup=100" : "train.warmup=0";
      study.rows.push_back({.name = fmt::format("{}-norm, {}", placement, warm ? "warm-up" : "none"),
                            .model = "gpt",
                            .attention = "softmax",
                            .set = {fmt::format("model.placement={}", placement), warmup},
                            .quick = {warm ? "train.warmup=50" : "train.warmup=0"}});
    }
  return study;
}

// The mechanisms of the survey, each as long as the others.
Study equal_time() {
  Study study{
      .name = "equal-time", .title = "Efficient Transformers after equal time: quality and cost", .source = kNoNumbers};
  Trial trial{.name = "listops"};
  trial.protocol = arena_task("listops").protocol("minutes");
  trial.protocol.train->keep = 1;
  trial.quick.set = {"train.minutes=0.4", "train.eval_every=60", "data.train=12000", "data.validation=500",
                     "data.test=1000",    "data.length=160",     "train.batch=32"};
  study.trials = {trial};
  study.columns = {{"ListOps", 0, "accuracy", Quantity::percent, Best::highest},
                   {"steps/s", 0, "steps_per_second", Quantity::number, Best::highest}};
  for (const char* name :
       {"softmax", "star", "sparse-fixed", "sparse-strided", "logsparse", "cascade", "bigbird", "sinkhorn",
        "transformer-xl", "linformer", "performer", "memformer", "transnormer-t2", "diag:block=64"})
    study.rows.push_back({.name = name, .attention = name});
  study.figures = {
      {1, 0, 2, "Accuracy against speed", "Each model after the same time: up is better, right is faster."}};
  return study;
}

struct Forecast {
  std::string_view set;
  std::int64_t horizon, input, label;
  double mse, mae;  // of Informer
};

// Lengths that Informer's scripts read for each horizon.
constexpr Forecast kForecasts[] = {
    {"ETTh1", 24, 48, 48, 0.577, 0.549},    {"ETTh1", 48, 96, 48, 0.685, 0.625},
    {"ETTh1", 168, 168, 168, 0.931, 0.752}, {"ETTh1", 336, 168, 168, 1.128, 0.873},
    {"ETTh1", 720, 336, 336, 1.215, 0.896}, {"ETTh2", 24, 48, 48, 0.720, 0.665},
    {"ETTh2", 48, 96, 96, 1.457, 1.001},    {"ETTh2", 168, 336, 336, 3.489, 1.515},
    {"ETTh2", 336, 336, 168, 2.723, 1.340}, {"ETTh2", 720, 720, 336, 3.467, 1.473},
    {"ETTm1", 24, 672, 96, 0.323, 0.369},   {"ETTm1", 48, 96, 48, 0.494, 0.503},
};

Trial forecast_trial(const Forecast& f) {
  Trial trial{.name = fmt::format("{}-{}", f.set, f.horizon), .data = {std::string(f.set)}};
  constexpr std::int64_t kEpoch = 266;  // steps of 32 windows
  TrainConfig train;
  train.steps = 6 * kEpoch;
  train.batch = 32;
  train.schedule = {.kind = ScheduleKind::halving, .peak = 1e-4, .warmup = 0, .period = kEpoch};
  train.clip_value = 0.0;
  train.eval_every = kEpoch;
  train.eval_examples = 0;
  train.patience = 3;
  train.keep = 1;
  trial.protocol.train = train;
  trial.protocol.task = Task::forecast;
  trial.protocol.data.input_length = f.input;
  trial.protocol.data.label_length = f.label;
  trial.protocol.data.horizon = f.horizon;
  trial.quick.set = {"train.steps=60", "train.eval_every=30", "train.lr_period=1000",
                     "train.batch=16", "data.validation=300", "data.test=600"};
  trial.quick.left_out = f.horizon > 48;
  return trial;
}

Study forecasts() {
  Study study{.name = "forecasts",
              .title = "Forecasts of the ETT sets: mean squared error",
              .source = "Zhou et al. 2021, table 2 (Informer, all series)",
              .note =
                  "Informer's parts (12, 4 and 4 months), values scaled by the training part, rate 1e-4 halved every "
                  "epoch, six epochs."};
  std::vector<double> published;
  for (const Forecast& f : kForecasts) {
    study.columns.push_back(
        {fmt::format("{} {} h", f.set, f.horizon), study.trials.size(), "mse", Quantity::number, Best::lowest});
    study.trials.push_back(forecast_trial(f));
    published.push_back(f.mse);
  }
  const std::vector<std::string> small = {"model.width=64",         "model.heads=4",         "model.inner=256",
                                          "model.decoder.width=64", "model.decoder.heads=4", "model.decoder.inner=256",
                                          "train.lr=1e-3"};
  study.rows = {
      {.name = "Informer", .model = "informer-forecast", .published = published, .quick = small},
      {.name = "memory-guided",
       .model = "memformer-forecast",
       .set = {"train.lr=2e-3", "train.steps=3000", "train.schedule=one_cycle", "train.patience=0", "train.warmup=100"},
       .quick = {"train.steps=200", "train.warmup=20"}}};
  return study;
}

}  // namespace

std::vector<Study> design_studies() {
  return {softmax_variants(), positions(), norm_placement(), equal_time(), forecasts()};
}

}  // namespace fovea

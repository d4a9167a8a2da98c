#include <fmt/format.h>

#include <algorithm>

#include "fovea/train.h"
#include "io/fields.h"
#include "io/folder.h"

namespace fovea {

// Classifiers of long texts keep the rates of the Long Range Arena. Others take steps ten times as large: theirs are
// small models, and of wide ones the rate falls with the width.
TrainConfig TrainConfig::usual(const ModelConfig& model) {
  constexpr double kRate = 1e-3, kWidth = 256.0;
  TrainConfig config;
  if (model.task == Task::classify || model.task == Task::match || model.task == Task::regress) return config;
  config.schedule.peak = kRate * std::min(1.0, kWidth / static_cast<double>(model.width));
  config.schedule.warmup = 100;
  config.clip_norm = 1.0;
  switch (model.task) {
    case Task::lm: config.batch = 8; break;
    case Task::mlm: config.batch = 16; break;
    case Task::seq2seq:
      config.batch = 128;
      config.label_smoothing = 0.1;
      config.length_window = 20;
      break;
    case Task::vision: config.batch = 64; break;
    case Task::forecast:
      // Informer's millions of parameters learn their few series by heart at higher rates.
      config.schedule.peak = model.series && model.series->kind == Forecaster::memformer ? 2e-3 : 1e-4;
      config.eval_every = 100;
      config.patience = 10;
      break;
    default: break;
  }
  return config;
}

void TrainConfig::check() const {
  if (batch % accumulation != 0)
    fail(ErrorCode::usage, fmt::format("a batch of {} does not divide into {} parts", batch, accumulation),
         "accumulation", "a divisor of train.batch");
  for (const std::string& rate : adamw.rates) parse_rate(rate);
}

void TrainConfig::fields(FieldVisitor& v) {
  constexpr double kMost = 1e12;
  v("steps", steps, "optimiser steps; with minutes given, at most so many", between(1, kMost));
  v("minutes", minutes, "budget of training time, evaluation not counted; 0: none", between(0, 1e7));
  v("tokens", tokens, "budget of tokens read; 0: none", between(0, 1e15));
  v("batch", batch, "examples per step", between(1, 1 << 24));
  v("accumulation", accumulation, "parts a batch is run in, to save memory", between(1, 1 << 24));
  v("lr", schedule.peak, "peak learning rate", between(0, 1e3));
  v("schedule", schedule.kind, "how the rate moves after the warm-up",
    one_of({"inverse_sqrt", "one_cycle", "cosine", "constant", "polynomial", "halving"}));
  v("power", schedule.power, "of the polynomial schedule", between(0, 100));
  v("lr_floor", schedule.floor, "rate at the end of the cosine and polynomial schedules", between(0, 1e3));
  v("lr_period", schedule.period, "steps after which the halving schedule halves the rate", between(1, kMost));
  v("warmup", schedule.warmup, "steps to the peak", between(0, kMost));
  v("beta1", adamw.beta1, "decay of AdamW's first moment", between(0, 0.9999999));
  v("beta2", adamw.beta2, "decay of AdamW's second moment", between(0, 0.9999999));
  v("eps", adamw.eps, "AdamW's epsilon, outside the root", above(0));
  v("weight_decay", adamw.weight_decay, "on matrices only", between(0, 1e3));
  v("decoupled", adamw.decoupled, "weight decay apart from the gradient (AdamW), or as L2 in it (Adam)");
  v("rates", adamw.rates, "parts that move at another rate, as multiples: classifier=10, embedding=0.1");
  v("clip_norm", clip_norm, "largest joint norm of the gradients; 0: no limit", at_least(0));
  v("clip_value", clip_value, "largest entry of a gradient; 0: no limit", at_least(0));
  v("clip_logits", clip_logits, "largest score of softmax: above it, queries and keys are scaled down; 0: no limit",
    at_least(0));
  v("label_smoothing", label_smoothing, "share of the target spread over all classes", between(0, 0.999));
  v("average", average, "weights averaged over the steps, for evaluation", one_of({"none", "exponential", "mean"}));
  v("average_decay", average_decay, "of the exponential average", between(0, 0.9999999));
  v("average_start", average_start, "first step that counts", between(1, kMost));
  v("patience", patience, "evaluations without a better one before the run ends; 0: no limit", between(0, kMost));
  v("prefetch", prefetch, "batches made ahead of their use", between(0, 1024));
  v("eval_every", eval_every, "steps between evaluations; 0: only at the end", between(0, kMost));
  v("evaluations", evaluations, "so many, spread evenly over the budget; 0: none but those of eval_every",
    between(0, 1e6));
  v("eval_examples", eval_examples, "validation examples used; 0: all", between(0, kMost));
  v("eval_batch", eval_batch, "examples per evaluation batch", between(1, 1 << 24));
  v("checkpoint_every", checkpoint_every, "steps between checkpoints; 0: not by steps", between(0, kMost));
  v("checkpoint_minutes", checkpoint_minutes, "longest time between checkpoints; 0: not by time", between(0, 1e7));
  v("keep", keep, "checkpoints that stay: last, and those before it", between(1, 1 << 20));
  v("log_every", log_every, "steps between rows of metrics.csv", between(1, kMost));
  v("seed", seed, "of parameters, data order and dropout");
  v("length_window", length_window, "batches among which examples are sorted by length; 0: none", between(0, 1 << 24));
  v("graphs", graphs, "on a card, play steps whose shape comes again as CUDA graphs");
  v("out", out, "folder for checkpoints and metrics; empty: nothing is written");
}

void EvalReport::fields(FieldVisitor& v) {
  v("step", step, "steps taken before; 0: never evaluated", at_least(0));
  v("split", split, "part of the data set");
  v("loss", loss, "mean cross-entropy, or mean squared error");
  v("accuracy", accuracy, "share of correct answers", between(0, 1));
  v("deviation", deviation, "mean absolute error of numbers", at_least(0));
  v("loss_margin", loss_margin, "half of the 95% interval of the loss; 0: unknown", at_least(0));
  v("examples", examples, "number of examples", at_least(0));
  v("asked", asked, "number of targets", at_least(0));
  v("seconds", seconds, "time taken");
  v("train_seconds", train_seconds, "training time before it");
  v("tokens", tokens, "read before it", at_least(0));
  v("best", best, "the best so far");
}

void RunConfig::fields(FieldVisitor& v) {
  v("model", model, "the model");
  v("train", train, "the training run");
}

RunConfig load_run_config(const std::string& folder) {
  return load_fields<RunConfig>(committed_folder(folder) / "config.json");
}

}  // namespace fovea

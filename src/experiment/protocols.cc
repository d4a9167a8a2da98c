#include "experiment/protocols.h"

#include <fmt/format.h>

#include <cmath>

namespace fovea {
namespace {

// Minutes instead of days: the published runs take 50000 steps at 1e-4. In that time a model sees each example at most
// once: there is nothing to overfit, and dropout only makes learning slower.
Protocol in_minutes(Protocol protocol, std::int64_t batch) {
  TrainConfig train;
  train.minutes = 2.0;
  train.steps = kNoStepLimit;
  train.schedule.peak = 2e-3;
  train.schedule.warmup = 50;
  train.clip_value = 0.0;
  train.clip_norm = 1.0;
  train.batch = batch;
  train.eval_every = 0;
  train.evaluations = 10;
  train.eval_examples = 500;
  train.checkpoint_every = 200;
  train.length_window = 16;
  protocol.train = train;
  protocol.set = {"model.dropout=0", "model.inner_dropout=0", "model.attention_dropout=0"};
  return protocol;
}

TrainConfig published_run(std::int64_t batch, std::int64_t steps) {
  TrainConfig train;
  train.steps = steps;
  train.batch = batch;
  train.adamw.eps = 1e-6;
  train.adamw.weight_decay = 0.0;
  train.eval_every = 500;
  train.checkpoint_every = 1000;
  return train;
}

// Presets have its sizes.
Protocol skyformer(Protocol protocol, const ArenaNumbers& numbers) {
  constexpr std::int64_t kSteps = 50000;
  protocol.data.train = 0;
  TrainConfig train = published_run(numbers.batch, kSteps);
  train.schedule = {.kind = ScheduleKind::one_cycle, .peak = numbers.rate, .warmup = numbers.warmup};
  train.clip_value = 1.0;
  train.clip_norm = 0.0;
  protocol.train = train;
  return protocol;
}

// Rates fall with the root of the step after 8000 of them.
Protocol official(Protocol protocol, const ArenaNumbers& numbers) {
  constexpr double kWarmup = 8000.0;
  protocol.data.train = 0;
  TrainConfig train = published_run(numbers.official_batch, numbers.official_steps);
  train.adamw.beta2 = 0.98;
  train.adamw.eps = 1e-9;
  train.adamw.weight_decay = 0.1;
  train.schedule = {.kind = ScheduleKind::inverse_sqrt,
                    .peak = 0.05 / std::sqrt(kWarmup),
                    .warmup = static_cast<std::int64_t>(kWarmup)};
  protocol.train = train;
  protocol.set = {fmt::format("model.width={}", numbers.official_width),
                  fmt::format("model.inner={}", 4 * numbers.official_width), "model.heads=4", "model.pooling=cls"};
  protocol.depth = numbers.official_layers;
  return protocol;
}

// Positions by rotation, four layers of width 128, AdamW with a cosine and weight decay.
Protocol modern(Protocol protocol, const ArenaNumbers& numbers) {
  constexpr std::int64_t kSteps = 20000, kWarmup = 1000, kDepth = 4;
  protocol.data.train = 0;
  TrainConfig train = published_run(numbers.batch, kSteps);
  train.schedule = {.kind = ScheduleKind::cosine, .peak = 1e-3, .warmup = kWarmup};
  train.adamw.beta2 = 0.98;
  train.adamw.weight_decay = 0.05;
  train.clip_value = 0.0;
  train.clip_norm = 1.0;
  protocol.train = train;
  protocol.set = {"model.width=128", "model.inner=512", "model.heads=4", "model.positions=rope"};
  protocol.depth = kDepth;
  return protocol;
}

}  // namespace

std::vector<TaskProtocol> arena_protocols(const Protocol& data, std::int64_t minutes_batch,
                                          const ArenaNumbers& numbers) {
  return {{"minutes", "2 layers of width 64, 2 minutes, no dropout", in_minutes(data, minutes_batch)},
          {"skyformer", "the TransNormer paper's: 2 layers of width 64, 50000 steps", skyformer(data, numbers)},
          {"official", "sizes and steps of the arena's own code", official(data, numbers)},
          {"modern", "4 layers of width 128, rotary positions, 20000 steps", modern(data, numbers)}};
}

}  // namespace fovea

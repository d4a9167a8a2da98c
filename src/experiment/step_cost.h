#pragma once

#include "fovea/context.h"
#include "fovea/data.h"
#include "fovea/train.h"

// What training steps of a model take, measured on random tokens.
namespace fovea {

// Random examples of a task that reads tokens (classify, lm, mlm), all of one length. Refuses other tasks by name.
struct RandomTokens {
  Task task = Task::classify;
  std::int64_t examples = 0, length = 0;
  std::int64_t vocabulary = 256, classes = 10;  // classes: of classify
};
Dataset random_tokens(const RandomTokens& wanted);

struct StepCost {
  double seconds = 0.0;         // of a step, median
  std::size_t peak_memory = 0;  // of all that was held at once: weights, optimiser, activations
  std::int64_t parameters = 0;
  std::int64_t steps = 0, tokens = 0;  // that were timed; that were read
  double train_seconds = 0.0;          // of all steps
};

inline constexpr int kWarmSteps = 3;  // not timed: memory is taken, plans are made

// Trains a new model for kWarmSteps and config.steps more, and writes nothing.
StepCost measure_steps(ContextOptions machine, const ModelConfig& model, const Dataset& data, TrainConfig config);

}  // namespace fovea

#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/mesh.h"
#include "experiment/by_length.h"
#include "experiment/scores.h"
#include "experiment/settings.h"
#include "fovea/context.h"
#include "fovea/train.h"
#include "inspect/health_report.h"
#include "train/profile.h"

namespace fovea {

// How a finished run ended: result.json in its folder, and its row in a comparison.
struct RunResult {
  std::string name;  // of the preset or mechanism
  std::uint64_t seed = 0;
  Scores scores;                     // on the test split (without one: validation), of the best checkpoint
  double validation_accuracy = 0.0;  // of that checkpoint
  double validation_loss = 0.0;
  std::int64_t best_step = 0, steps = 0;
  double train_seconds = 0.0, eval_seconds = 0.0;
  double input_seconds = 0.0;  // of the training time, waiting for batches
  std::int64_t skipped = 0;    // steps whose f16 gradients overflowed
  std::int64_t tokens = 0;     // read while training, before and after a resume
  std::int64_t parameters = 0;
  std::uint64_t peak_memory = 0;
  double other_load = 0.0;  // cores that other programs kept busy while it was trained, on the mean
  std::vector<ZoneTime> zones;
  std::vector<LengthScore> by_length;  // of classes: accuracy on inputs of like lengths
  // Of the steps since the start or the last resume, where they were asked for.
  std::optional<ProfileReport> profile;
  std::optional<HealthReport> health;

  double tokens_per_second() const { return train_seconds > 0.0 ? static_cast<double>(tokens) / train_seconds : 0.0; }
  double steps_per_second() const { return train_seconds > 0.0 ? static_cast<double>(steps) / train_seconds : 0.0; }
  void fields(FieldVisitor& v);
};

// What is measured beside a run; one of them at most, for each would measure the other.
enum class Watch : std::uint8_t {
  none,
  profile,  // time and memory by layer and operation
  health,   // gradients and scores by layer
};

// What a run needs from outside its settings.
struct RunEnvironment {
  ContextOptions machine;  // but for its seed
  RunObserver& observer;
  const std::atomic<bool>* stop = nullptr;  // when true, the run saves and ends
  std::string name = {};                    // in progress and results
  std::string resume_command = {};          // what to type after an interruption
  Watch watch = Watch::none;
  std::function<void(const std::string&)> warn = {};  // what health finds wrong after a step; empty: nothing
  dist::Mesh mesh = {};                               // who shares the run
  std::string start = {};  // folder of a model whose weights a new run begins with, where names and shapes agree
};

// Trains in settings.train.out, a folder of its own, and evaluates the best checkpoint on the test split. `resume`,
// where it is given, is what it continues: that folder, or a checkpoint in it. A run that was finished is left as it
// is. Interrupted: saves and throws an Error that says how to go on.
RunResult run_model(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment,
                    const std::string& resume);

}  // namespace fovea

#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/scores.h"
#include "cli/settings.h"
#include "fovea/train.h"

namespace fovea::cli {

// How a finished run ended: result.json in its folder, and its row in a comparison.
struct RunResult {
  std::string name;                  // of the preset or mechanism
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
  std::vector<ZoneTime> zones;

  double steps_per_second() const { return train_seconds > 0.0 ? static_cast<double>(steps) / train_seconds : 0.0; }
  void fields(FieldVisitor& v);
};

// The files of a run beside the checkpoints.
inline constexpr const char* kRunFile = "run.json";        // RunSettings
inline constexpr const char* kResultFile = "result.json";  // RunResult
// Of several runs, in the folder above theirs.
inline constexpr const char* kComparisonFile = "comparison.json";

// What a run needs from outside its settings.
struct RunEnvironment {
  const Console& console;
  const MachineOptions& machine;
  const std::atomic<bool>& stop;
  std::string name;            // shown beside the progress bar
  std::string resume_command;  // what to type after an interruption
  std::size_t name_width = 0;  // columns for the name, so that bars of several models line up
};

// Trains in settings.train.out, a folder of its own, and evaluates the best checkpoint on the test split. `resume`,
// where it is given, is what it continues: that folder, or a checkpoint in it. A run that was finished is left as it
// is. Interrupted: saves and throws an Error that says how to go on.
RunResult run_model(const RunSettings& settings, const Dataset& data, const RunEnvironment& environment,
                    const std::string& resume);

// Settings as written by run_model into a folder; refuses one that holds no run.
RunSettings load_settings(const std::string& folder);

// Refuses a folder that already holds a run or something else. A run that was stopped before it saved anything may be
// started anew.
void require_new_folder(const std::string& folder);

// A run folder stands for its best checkpoint; a checkpoint folder for itself. `who` asks.
Path checkpoint_of(const std::string& folder, const char* who);

// "runs/listops-20240131-142501"
std::string default_folder(const std::string& name);

// Examples, sizes, classes and the accuracy of always giving the most frequent answer.
std::string describe_data(const Dataset& data);

}  // namespace fovea::cli

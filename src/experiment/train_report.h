#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/predictions.h"
#include "experiment/run_model.h"

namespace fovea {

// What a page tells of a run besides its numbers.
struct TrainReport {
  std::string command;
  RunSettings settings;
  RunResult result;
  std::optional<ClassMetrics> metrics = {};    // of classes
  std::vector<NumberPrediction> numbers = {};  // of numbers: what the best checkpoint gave
};

// The command that people reach for next, by task.
std::string next_command(const RunSettings& settings);

// report.html and curves.png in the folder of a finished run: result, curves, what the best checkpoint does with
// examples of the test part, settings. Fills in the metrics.
void write_train_report(TrainReport& report, const Dataset& data, const RunEnvironment& environment);

}  // namespace fovea

#pragma once

#include <string>
#include <vector>

#include "experiment/compare_report.h"
#include "experiment/run_model.h"
#include "io/lock.h"

namespace fovea {

// What is compared and how: comparison.json, written first, so that an interrupted comparison can go on.
struct ComparisonPlan {
  std::vector<std::string> models;
  std::vector<RunSettings> runs;  // of each model
  std::string folder;

  void fields(FieldVisitor& v);
};

// Presets or mechanisms, each with the same protocol and choices, in folders below choices.out or a new one.
ComparisonPlan plan_comparison(const Protocol& protocol, const std::vector<std::string>& models,
                               const RunChoices& choices);
// That of a comparison that goes on; refuses a folder without one.
ComparisonPlan load_comparison(const std::string& folder);

// Several models on one data set, each with the same budget. Its folder is its own while it lives.
class Comparison {
 public:
  // Reads the data and writes down the plan.
  Comparison(ComparisonPlan plan, const ContextOptions& machine, RunObserver& observer);

  const ComparisonPlan& plan() const { return plan_; }
  const Dataset& data() const { return data_; }

  // Trains what is not finished yet. The environment's name is that of each model in turn.
  CompareReport run(RunEnvironment environment) const;

 private:
  ComparisonPlan plan_;
  FolderLock lock_;
  Dataset data_;
};

}  // namespace fovea

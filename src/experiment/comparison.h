#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/compare_report.h"
#include "experiment/run_model.h"
#include "io/lock.h"

namespace fovea {

// What people ask to have compared.
struct ComparisonChoices {
  std::string task = {};                    // of the arena; empty: none
  std::vector<std::string> models = {};     // presets
  std::vector<std::string> attention = {};  // mechanisms or presets; with models every pair of them
  std::vector<std::uint64_t> seeds = {};    // none: the one of the run
  RunChoices run = {};                      // what is the same for all
};

// What is compared and how: comparison.json, written first, so that an interrupted comparison can go on.
struct ComparisonPlan {
  std::string task;  // of the arena, whose published scores stand beside ours; empty: none
  std::vector<std::string> models;
  std::vector<std::uint64_t> seeds;
  std::vector<RunSettings> runs;  // of each model with each seed, model by model
  std::string folder;

  const RunSettings& run(std::size_t model, std::size_t seed) const { return runs[model * seeds.size() + seed]; }
  std::string run_name(std::size_t model, std::size_t seed) const;  // "norm", of several seeds "norm seed 2"
  void fields(FieldVisitor& v);
};

// Every model with the same protocol and choices, in folders below choices.run.out or a new one.
ComparisonPlan plan_comparison(const Protocol& protocol, const ComparisonChoices& choices);
// That of a comparison that goes on; refuses a folder without one.
ComparisonPlan load_comparison(const std::string& folder);
// Each model has a folder of its own below the comparison's, which may have been moved.
void set_folder(ComparisonPlan& plan, const std::string& folder);

// Several models on one data set, each with the same budget. Its folder is its own while it lives.
class Comparison {
 public:
  // Reads the data and writes down the plan; of several ranks the first does.
  Comparison(ComparisonPlan plan, const ContextOptions& machine, RunObserver& observer, const dist::Mesh& mesh = {});

  const ComparisonPlan& plan() const { return plan_; }
  const Dataset& data() const { return data_; }

  // Trains what is not finished yet, seed by seed. The environment's name is that of each run in turn.
  void run(RunEnvironment environment) const;
  // Of what is finished.
  CompareReport report() const;

 private:
  ComparisonPlan plan_;
  std::optional<FolderLock> lock_;  // of the rank that writes
  Dataset data_;
};

}  // namespace fovea

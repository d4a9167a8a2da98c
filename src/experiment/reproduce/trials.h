#pragma once

#include <memory>

#include "experiment/reproduce/outcome.h"
#include "experiment/reproduce/plan.h"
#include "experiment/run_model.h"

namespace fovea {

// The data set that was read last: cells of one trial come one after the other.
class LastDataset {
 public:
  // `tokenizer`: folder of one that is used again; empty: none.
  std::shared_ptr<const Dataset> load(const RunSettings& settings, const Path& tokenizer, const RunEnvironment& run);

 private:
  std::string settings_;
  std::shared_ptr<const Dataset> data_;
};

// All that a trial needs.
struct TrialCall {
  const StudyPlan& plan;
  const StudyCell& cell;
  const RunEnvironment& environment;
  LastDataset& data;

  const Trial& trial() const { return plan.study().trials[cell.trial]; }
};

// Runs a cell, or goes on with it. Memory that ends and numbers that are not finite are outcomes, too.
Outcome run_trial(const TrialCall& call);

// The folder of the weights that a cell begins with; empty: it begins with none.
Path start_of(const StudyPlan& plan, const StudyCell& cell);

// One for each TrialKind.
Outcome run_training(const TrialCall& call);
Outcome run_tuning(const TrialCall& call);
Outcome run_speed(const TrialCall& call);
Outcome run_locality(const TrialCall& call);
Outcome run_size(const TrialCall& call);

// Settings of the cell that fit the data, trained; the numbers of it.
Outcome train_and_judge(const TrialCall& call, RunSettings settings, const Path& start);

// Population deviation of the norm of all gradients over its mean, over all steps of a run that are finite: what
// metrics.csv has, so of all of them where it has a row for each step. NaN: there are none.
double gradient_deviation(const Path& run);

}  // namespace fovea

#pragma once

#include <string>
#include <vector>

#include "experiment/reproduce/outcome.h"
#include "experiment/reproduce/plan.h"
#include "experiment/run_model.h"

namespace fovea {

// Watches the cells of a study.
class StudyObserver {
 public:
  virtual ~StudyObserver() = default;
  virtual void on_cell(const std::string& /*name*/, std::size_t /*done*/, std::size_t /*all*/) {}  // begins
  virtual void on_outcome(const std::string& /*name*/, const Outcome&) {}
  virtual void on_failure(const std::string& /*name*/, const Error&) {}
};

struct FailedCell {
  std::string name;
  Error error;
};

// Runs the cells of a plan that are not finished and that no other process is at work on: several processes, on several
// machines, may share a folder. A cell that fails is left for the next time; an interruption ends all.
// The environment's name is that of each cell in turn.
std::vector<FailedCell> run_cells(const StudyPlan& plan, RunEnvironment environment, StudyObserver& observer);

// Of the cells of the plan, those that are there.
struct FinishedCell {
  StudyCell cell;
  Outcome outcome;
};
std::vector<FinishedCell> finished_cells(const StudyPlan& plan);

}  // namespace fovea

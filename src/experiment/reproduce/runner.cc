#include "experiment/reproduce/runner.h"

#include <chrono>
#include <memory>
#include <thread>

#include "experiment/reproduce/trials.h"
#include "io/lock.h"

namespace fovea {
namespace {

bool finished(const StudyPlan& plan, const StudyCell& cell) { return is_there(plan.folder(cell) / kOutcomeFile); }

bool ready(const StudyPlan& plan, const StudyCell& cell) {
  const Path start = start_of(plan, cell);
  return start.empty() || is_there(start.parent_path().parent_path() / kOutcomeFile);
}

class Worker {
 public:
  Worker(const StudyPlan& plan, RunEnvironment environment, StudyObserver& observer)
      : plan_(plan), environment_(std::move(environment)), observer_(observer) {}

  std::vector<FailedCell> work() {
    while (pass()) std::this_thread::sleep_for(std::chrono::seconds(1));
    return std::move(failed_);
  }

 private:
  // Goes through all cells once; true: one of them waits for what another process does.
  bool pass() {
    bool waiting = false;
    const auto& cells = plan_.cells();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (finished(plan_, cells[i]) || has_failed(cells[i])) continue;
      if (!ready(plan_, cells[i])) {
        waiting = waiting || waits_for_another(cells[i]);
        continue;
      }
      if (const auto lock = FolderLock::try_take(plan_.folder(cells[i])); lock && !finished(plan_, cells[i]))
        run(cells[i], i);
    }
    return waiting && !stopped();
  }

  bool stopped() const { return environment_.stop != nullptr && environment_.stop->load(); }

  bool has_failed(const StudyCell& cell) const {
    for (const FailedCell& failed : failed_)
      if (failed.name == plan_.name(cell)) return true;
    return false;
  }

  // What it begins with is being made.
  bool waits_for_another(const StudyCell& cell) const {
    return FolderLock::is_taken(start_of(plan_, cell).parent_path().parent_path());
  }

  void run(const StudyCell& cell, std::size_t place) {
    environment_.name = plan_.name(cell);
    observer_.on_cell(environment_.name, place, plan_.cells().size());
    try {
      const Outcome outcome = run_trial({plan_, cell, environment_, data_});
      write_file(plan_.folder(cell) / kOutcomeFile, json_text(write_fields(outcome)));
      observer_.on_outcome(environment_.name, outcome);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) throw;
      observer_.on_failure(environment_.name, error);
      failed_.push_back({environment_.name, error});
    }
  }

  const StudyPlan& plan_;
  RunEnvironment environment_;
  StudyObserver& observer_;
  LastDataset data_;
  std::vector<FailedCell> failed_;
};

}  // namespace

std::vector<FailedCell> run_cells(const StudyPlan& plan, RunEnvironment environment, StudyObserver& observer) {
  return Worker(plan, std::move(environment), observer).work();
}

std::vector<FinishedCell> finished_cells(const StudyPlan& plan) {
  std::vector<FinishedCell> cells;
  for (const StudyCell& cell : plan.cells()) {
    if (!finished(plan, cell)) continue;
    cells.push_back({cell, load_fields<Outcome>(plan.folder(cell) / kOutcomeFile)});
    cells.back().outcome.smaller = plan.smaller_model(cell.trial);
  }
  return cells;
}

}  // namespace fovea

#pragma once

#include <string>
#include <vector>

#include "experiment/reproduce/runner.h"

namespace fovea {

// Of one column, over the seeds.
struct StudyValue {
  std::size_t seeds = 0;  // that gave a number; 0: there is none
  double mean = kUnpublished;
  double spread = 0.0;  // sample deviation; 0 of one seed
  double published = kUnpublished;
  std::string trouble;    // why there is none
  std::string budget;     // of the seed with the least; empty: not run
  bool complete = false;  // at the published budget

  double difference() const { return mean - published; }
};

// What a row cost in a trial: means over the seeds.
struct StudyCost {
  double parameters = 0.0, steps = 0.0, tokens = 0.0, seconds = 0.0, peak_memory = 0.0;
};

// All that is known of a study: rows, then its baseline where there is one.
class StudyResults {
 public:
  explicit StudyResults(const StudyPlan& plan);

  const StudyPlan& plan() const { return *plan_; }
  const Study& study() const { return plan_->study(); }

  std::size_t done() const { return done_; }  // cells
  std::vector<std::size_t> rows() const;      // that are run
  bool has_column(std::size_t column) const { return plan_->has_trial(study().columns[column].trial); }
  const StudyValue& value(std::size_t row, std::size_t column) const { return values_[row][column]; }
  const StudyCost& cost(std::size_t row, std::size_t trial) const { return costs_[row][trial]; }
  // What is reached without a model: always the most frequent class, or the frequencies of tokens; NaN: no such thing.
  double baseline(std::size_t column) const { return baseline_[column]; }
  const std::string& machine() const { return machine_; }

  // "37.2 ± 0.4 (300/50k steps)", in the unit of the column.
  std::string cell_text(std::size_t row, std::size_t column) const;

  // In the shape of the published table: ours, each with its budget.
  Table summary() const;
  // Paper, ours, difference, budget and what it cost, for each row.
  Table details(std::size_t column) const;

  Json json() const;
  std::string csv() const;

 private:
  void judge(std::size_t row, const std::vector<FinishedCell>& cells);

  const StudyPlan* plan_;
  std::size_t done_ = 0;
  std::vector<std::vector<StudyValue>> values_;  // of each row and column
  std::vector<std::vector<StudyCost>> costs_;    // of each row and trial
  std::vector<double> baseline_;                 // of each column
  std::string machine_;
};

}  // namespace fovea

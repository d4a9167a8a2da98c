#pragma once

#include "fovea/train.h"
#include "io/csv.h"
#include "io/tensorboard.h"

namespace fovea {

// Of the steps since the last row of metrics.csv: part of a checkpoint, so that the next row is the same after a
// resume.
struct MetricSums {
  std::int64_t steps = 0, tokens = 0;
  double loss = 0.0, accuracy = 0.0, seconds = 0.0;

  void add(const StepReport& report);
  void fields(FieldVisitor& v);
};

// Writes metrics.csv and a TensorBoard event file into the folder of a run: training values as means since the last
// row, and every evaluation.
class MetricsWriter : public TrainObserver {
 public:
  // Rows after `step` are dropped: the run goes on from there. `sums` are those of the run's state.
  MetricsWriter(const Path& folder, std::int64_t log_every, std::int64_t step, MetricSums& sums);

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;

 private:
  std::int64_t log_every_;
  MetricSums& sums_;
  CsvLog csv_;
  EventLog events_;
};

}  // namespace fovea

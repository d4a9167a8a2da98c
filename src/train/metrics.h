#pragma once

#include "fovea/train.h"
#include "io/csv.h"
#include "io/tensorboard.h"

namespace fovea {

// Writes metrics.csv and a TensorBoard event file into the folder of a run: training values as means since the last
// row, and every evaluation.
class MetricsWriter : public TrainObserver {
 public:
  // Rows after `step` are dropped: the run goes on from there.
  MetricsWriter(const Path& folder, std::int64_t log_every, std::int64_t step);

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;

 private:
  std::int64_t log_every_;
  CsvLog csv_;
  EventLog events_;
  // Sums since the last row.
  std::int64_t steps_ = 0, tokens_ = 0;
  double loss_ = 0.0, accuracy_ = 0.0, step_seconds_ = 0.0;
};

}  // namespace fovea

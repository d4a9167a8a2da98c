#pragma once

#include <string>

#include "cli/kit/console.h"
#include "experiment/scores.h"
#include "fovea/train.h"
#include "report/progress.h"

namespace fovea::cli {

// Shows a training run as it goes: a bar on a terminal, a line every few seconds elsewhere. Loss and, where there are
// classes, accuracy are those of the training batches, smoothed.
class TrainProgress : public TrainObserver {
 public:
  struct Form {
    std::size_t name_width = 0;
    bool json_lines = false;  // an object for every line, for programs that watch
  };
  TrainProgress(const Console& console, Task task, std::string name, Form form);

  void on_step(const StepReport& report) override;
  void on_eval_progress(std::int64_t done, std::int64_t all) override;
  void on_eval(const EvalReport& report) override;
  void set_warning(std::string_view text) { warning_ = text; }  // shown with the steps until it is another
  void finish();

 private:
  // A mean that forgets: what lies `kMemory` steps back has a third of its weight left.
  class Smooth {
   public:
    double add(double value);

   private:
    double sum_ = 0.0, weight_ = 0.0;
  };

  void write_json(const StepReport& report);

  // The warning, steps that were skipped so far, and the share of the last while spent waiting for batches; empty:
  // nothing to tell.
  std::string notice(const StepReport& report);

  const Console& console_;
  std::string name_;
  bool json_lines_;
  double told_ = -1.0;  // training seconds at the last line of JSON
  Scores scores_;       // only the task counts
  Progress progress_;
  ProgressState state_;  // after the last step
  std::int64_t skipped_ = 0;
  std::string warning_;
  Smooth loss_, accuracy_, rate_, seconds_, waiting_;
};

}  // namespace fovea::cli

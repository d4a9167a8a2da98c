#pragma once

#include <string>

#include "cli/console.h"
#include "fovea/train.h"
#include "report/progress.h"

namespace fovea::cli {

// Shows a training run as it goes: a bar on a terminal, a line every few seconds elsewhere. Loss and accuracy are those
// of the training batches, smoothed.
class TrainProgress : public TrainObserver {
 public:
  TrainProgress(const Console& console, std::string name, std::size_t name_width);

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void finish() { progress_.finish(); }

 private:
  // A mean that forgets: what lies `kMemory` steps back has a third of its weight left.
  class Smooth {
   public:
    double add(double value);

   private:
    double sum_ = 0.0, weight_ = 0.0;
  };

  const Console& console_;
  Progress progress_;
  Smooth loss_, accuracy_;
};

}  // namespace fovea::cli

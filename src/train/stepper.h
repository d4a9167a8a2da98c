#pragma once

#include <optional>
#include <span>

#include "fovea/train.h"

namespace fovea {

// One optimiser step after another: forward, backward, clipping, update, average.
class Stepper {
 public:
  Stepper(Context& context, Model& model, const TrainConfig& config);

  // The parts of one batch; fills in what the report says of them. A step whose f16 gradients overflow is skipped.
  void step(std::span<const Batch> parts, double rate, StepReport& report);

  void set_observer(TapeObserver& observer) { observer_ = &observer; }
  AdamW& adamw() { return adamw_; }
  std::optional<WeightAverage>& average() { return average_; }
  std::optional<LossScaler>& scaler() { return scaler_; }
  std::int64_t skipped() const { return scaler_ ? scaler_->state().skipped : 0; }

 private:
  TapeOptions tape_options(const StepReport& report, std::size_t part) const;
  Loss run_part(const Batch& batch, std::size_t part, double share, const StepReport& report);
  bool adapt_scale(bool finite, StepReport& report);
  void check_finite(std::span<const Batch> parts, const StepReport& report);
  std::string find_source(std::span<const Batch> parts, const StepReport& report);

  Context& context_;
  Model& model_;
  const TrainConfig& config_;
  TapeObserver* observer_ = nullptr;
  AdamW adamw_;
  std::optional<WeightAverage> average_;
  std::optional<LossScaler> scaler_;  // of f16 models
};

}  // namespace fovea

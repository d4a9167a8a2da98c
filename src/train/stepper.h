#pragma once

#include <optional>
#include <span>

#include "fovea/train.h"
#include "train/bucket_watch.h"
#include "train/part_share.h"
#include "train/recorded_steps.h"
#include "train/shared_adamw.h"

namespace fovea {

// One optimiser step after another: forward, backward, clipping, update, average. All of it is enqueued before the host
// knows how it went: what is not finite stops the update where it is.
class Stepper {
 public:
  Stepper(Context& context, Model& model, const TrainConfig& config,
          RecordedSteps::When record = RecordedSteps::When::where_it_pays);

  // Shares its steps with other ranks from now on; so does the model.
  void set_mesh(const dist::Mesh& mesh);
  const dist::Mesh& mesh() const { return mesh_; }
  const PartShare& share() const { return share_; }
  Context& context() const { return context_; }

  // This rank's parts of one batch; fills in what the report says of all parts. A step whose f16 gradients overflow is
  // skipped.
  void step(std::span<const Batch> parts, double rate, StepReport& report);

  void set_observer(TapeObserver& observer) {
    observer_ = &observer;
    recorded_.turn_off("an observer watches");
  }
  RecordedSteps& recorded() { return recorded_; }
  SharedAdamW& adamw() { return *adamw_; }
  void forget_gradients() { adamw_->zero_grad(); }
  std::optional<WeightAverage>& average() { return average_; }
  std::optional<LossScaler>& scaler() { return scaler_; }
  std::int64_t skipped() const { return scaler_ ? scaler_->state().skipped : 0; }

 private:
  // What the host tells a step, f64: for each part the factor of its loss, 1 / loss scale, AdamW's paces, the average's
  // share.
  struct Numbers {
    std::size_t parts, rates;
    std::size_t unscale() const { return parts; }
    std::size_t pace() const { return parts + 1; }
    std::size_t share() const { return pace() + 3 * rates; }
    std::size_t size() const { return share() + 1; }
  };
  std::vector<double> told(std::span<const double> shares, double rate) const;
  void follow_parameters();
  void abandon(const Error& error) noexcept;
  void check_divided() const;
  const std::vector<Parameter>& graded() const;
  Tensor enqueue(Context& context, std::span<const Batch> parts);
  std::vector<Tensor> run_parts(Context& context, std::span<const Batch> parts, const Tensor& factors);
  std::vector<double> numbers_of_parts(std::span<const double> numbers, std::size_t parts) const;
  TapeOptions tape_options(std::size_t part) const;
  std::uint64_t stream(std::size_t part) const;
  bool adapt_scale(bool finite, StepReport& report);
  void check_finite(std::span<const Batch> parts, const StepReport& report);
  std::string find_source(std::span<const Batch> parts);
  std::string told_source(std::span<const Batch> parts);
  void report_parts(std::span<const double> counts, std::span<const double> numbers, StepReport& report) const;

  Context& context_;
  Model& model_;
  const TrainConfig& config_;
  TapeObserver* observer_ = nullptr;
  std::int64_t step_ = 0;     // the one that is being taken
  std::vector<double> told_;  // for it
  std::optional<SharedAdamW> adamw_;
  std::optional<WeightAverage> average_;
  std::optional<LossScaler> scaler_;  // of f16 models
  dist::Mesh mesh_;
  PartShare share_;
  std::unique_ptr<BucketWatch> exchange_;
  RecordedSteps recorded_;
};

}  // namespace fovea

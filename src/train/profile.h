#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/train.h"

namespace fovea {

// One operation at one place of a model, over all steps that were measured.
struct ProfileRow {
  std::string place, operation;  // "model.layers[1].attention", "linear"
  std::int64_t calls = 0;
  double forward_seconds = 0.0, backward_seconds = 0.0;  // backward: with what is recomputed
  double memory = 0.0;                                   // bytes kept for backward

  void fields(FieldVisitor& v);
};

// Where the time of training steps went: rows, input and update add up to `seconds`.
struct ProfileReport {
  std::int64_t steps = 0;
  double seconds = 0.0;
  double input_seconds = 0.0;    // waiting for batches
  double update_seconds = 0.0;   // clipping, optimiser, average, and what else no tape sees
  std::vector<ProfileRow> rows;  // in the order of a step

  void fields(FieldVisitor& v);
};

// Measures training steps by place and operation. An operation has the time since the one before it ended, and the
// memory that came into use since then: what its layer does around it is counted with it.
class Profile final : public TapeObserver, public TrainObserver {
 public:
  explicit Profile(const Context& context) : context_(context) {}

  void on_begin(const Tape& tape) override;
  void on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) override;
  void on_gradients(const Tape& tape, const Node& node) override;
  void on_step(const StepReport& report) override;

  ProfileReport report() const;

 private:
  using Clock = std::chrono::steady_clock;

  ProfileRow& row(const Tape& tape, const Op& op);
  double lap();           // seconds since the last
  double grown_memory();  // bytes since the last

  const Context& context_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_;  // of rows, by place and operation
  std::map<std::pair<PlaceId, const Op*>, std::size_t> known_;        // the same for the tape of now
  ProfileReport report_;
  Clock::time_point last_;
  std::size_t in_use_ = 0;
};

}  // namespace fovea

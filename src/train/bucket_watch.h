#pragma once

#include <unordered_map>
#include <vector>

#include "fovea/autograd.h"

namespace fovea {

// Adds up the gradients of all ranks while backward still makes them, in buckets of parameters: each is launched when
// the gradients of all its parameters are complete and those before it have been, so that ranks meet in one order.
class BucketWatch : public TapeObserver {
 public:
  // Who is to watch the tape of a part of a step: this one, and behind it whoever watches already.
  virtual TapeObserver* watch(TapeObserver* other, bool last_part) = 0;
  virtual void end_part(bool last) = 0;
  // Sends what has not gone and waits. `rounds`: parts of the rank that has most of them.
  virtual void finish(std::int64_t rounds) = 0;
  // The step failed: tells the other ranks, and waits for what is going on.
  virtual void abandon(const Error& error) noexcept = 0;

  void on_begin(const Tape& tape) override;
  void on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) override;
  void on_gradients(const Tape& tape, const Node& node) override;
  void on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) override;

 protected:
  TapeObserver* watch_for(TapeObserver* other);
  void add_bucket() { counts_.emplace_back(); }
  void add_to_last(const Var& parameter);
  // Those that are left: the tape did not use some of their parameters. The next tape begins with the first again.
  void launch_rest();
  virtual void launch(std::size_t bucket) = 0;

 private:
  struct Count {
    std::size_t all = 0, complete = 0;
  };
  std::vector<Count> counts_;
  std::unordered_map<const Slot*, std::size_t> bucket_of_;
  std::size_t launched_ = 0;
  TapeObserver* other_ = nullptr;
};

}  // namespace fovea

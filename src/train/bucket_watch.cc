#include "train/bucket_watch.h"

namespace fovea {

void BucketWatch::add_to_last(const Var& parameter) {
  ++counts_.back().all;
  bucket_of_[parameter.slot().get()] = counts_.size() - 1;
}

TapeObserver* BucketWatch::watch_for(TapeObserver* other) {
  if (counts_.empty()) return other;
  other_ = other;
  return this;
}

void BucketWatch::launch_rest() {
  while (launched_ < counts_.size()) launch(launched_++);
  launched_ = 0;
  for (Count& count : counts_) count.complete = 0;
}

void BucketWatch::on_begin(const Tape& tape) {
  if (other_ != nullptr) other_->on_begin(tape);
}

void BucketWatch::on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) {
  if (other_ != nullptr) other_->on_values(tape, op, values);
}

void BucketWatch::on_gradients(const Tape& tape, const Node& node) {
  if (other_ != nullptr) other_->on_gradients(tape, node);
}

void BucketWatch::on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) {
  if (other_ != nullptr) other_->on_complete(tape, leaf);
  const auto found = bucket_of_.find(leaf.get());
  if (found == bucket_of_.end()) return;
  ++counts_[found->second].complete;
  while (launched_ < counts_.size() && counts_[launched_].complete == counts_[launched_].all) launch(launched_++);
}

}  // namespace fovea

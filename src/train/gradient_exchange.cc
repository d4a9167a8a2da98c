#include "train/gradient_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "core/wide.h"
#include "tensor/views.h"

namespace fovea {
namespace {

constexpr std::int64_t kBucket = std::int64_t{1} << 20;  // numbers: 4 MiB hide the start of a message, and overlap

// The sets of ranks of a pipeline that have a parameter together, of all its ranks.
std::set<std::vector<int>> shared_stages(std::span<const Parameter> parameters, const dist::Group& pipeline) {
  std::string own;
  for (const Parameter& p : parameters)
    if (!p.stages.empty()) own += fmt::format("{} -1 ", fmt::join(p.stages, " "));
  std::set<std::vector<int>> all;
  for (const std::string& text : pipeline.all_gather(own)) {
    std::istringstream numbers(text);
    std::vector<int> stages;
    for (int stage = 0; numbers >> stage;)
      stage >= 0 ? stages.push_back(stage) : static_cast<void>(all.insert(std::exchange(stages, {})));
  }
  return all;
}

}  // namespace

// Ranks of several stages meet last, after those of each stage have: nobody waits for one that waits for it.
GradientExchange::GradientExchange(std::span<const Parameter> parameters, const dist::Mesh& mesh)
    : ranks_(mesh.all.split(0, "all gradients")) {
  find_sharers(parameters, mesh);
  for (std::size_t i = parameters.size(); i-- > 0;)
    if (parameters[i].stages.empty()) add(parameters[i]);
  for (const auto& [sharers, ranks] : sharers_)
    for (const Parameter& p : parameters)
      if (!p.stages.empty() && sharers == Sharers(p)) add(p);
  for (Bucket& bucket : buckets_)
    bucket.numbers =
        host_tensor({bucket.size + std::ssize(bucket.parameters)}, wide_type(bucket.parameters.front().dtype()));
}

// The same groups are made in the same order on every rank, also those that it is not in.
void GradientExchange::find_sharers(std::span<const Parameter> parameters, const dist::Mesh& mesh) {
  sharers_[{false, {}}] = mesh.same_layers.split(0, "gradients");
  sharers_[{true, {}}] = mesh.same_weights.split(0, "gradients of parts");
  for (const std::vector<int>& stages : shared_stages(parameters, mesh.pipeline))
    for (const bool cut : {false, true}) {
      const bool inside = std::find(stages.begin(), stages.end(), mesh.pipeline.rank()) != stages.end();
      const int part = cut ? mesh.tensor.rank() : 0, outside = mesh.tensor.size();
      const dist::Group ranks = mesh.all.split(inside ? part : outside, "gradients of several stages");
      if (inside) sharers_[{cut, stages}] = ranks;
    }
}

void GradientExchange::add(const Parameter& p) {
  const Sharers sharers(p);
  if (!p.trained() || sharers_[sharers].size() == 1) return;
  const Var& parameter = p.var;
  const std::int64_t size = parameter.value().numel();
  const bool fits = !buckets_.empty() && buckets_.back().sharers == sharers && buckets_.back().size + size <= kBucket &&
                    wide_type(buckets_.back().parameters.front().dtype()) == wide_type(parameter.dtype());
  if (!fits) buckets_.emplace_back().sharers = sharers;
  buckets_.back().parameters.push_back(parameter);
  buckets_.back().size += size;
  bucket_of_[parameter.slot().get()] = buckets_.size() - 1;
}

TapeObserver* GradientExchange::watch(TapeObserver* other) {
  if (ranks_.size() == 1) return other;
  other_ = other;
  return this;
}

void GradientExchange::launch() {
  const Bucket* const bucket = &buckets_[launched_++];
  worker_.submit([this, bucket] { send(*bucket); });
}

// Runs on the worker's thread.
void GradientExchange::send(const Bucket& bucket) const {
  std::int64_t at = 0, flag = bucket.size;
  for (const Var& p : bucket.parameters) {
    const std::int64_t size = p.value().numel();
    const Tensor room = bucket.numbers.slice(0, at, at + size).reshape(p.shape());
    if (p.grad().defined())
      room.copy_from(p.grad());
    else
      room.fill(0.0);
    bucket.numbers.select(0, flag++).fill(p.grad().defined() ? 1.0 : 0.0);
    at += size;
  }
  sharers_.at(bucket.sharers).all_reduce(bucket.numbers);
  at = 0;
  for (const Var& p : bucket.parameters) {
    const std::int64_t size = p.value().numel();
    if (p.grad().defined()) p.grad().copy_from(bucket.numbers.slice(0, at, at + size).reshape(p.shape()));
    at += size;
  }
}

void GradientExchange::finish() {
  if (ranks_.size() == 1) return;
  while (launched_ < buckets_.size()) launch();
  worker_.wait();
  launched_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.complete = 0;
    std::int64_t at = 0, flag = bucket.size;
    for (const Var& p : bucket.parameters) {
      const std::int64_t size = p.value().numel();
      if (!p.grad().defined() && bucket.numbers.select(0, flag).item() > 0.0)
        p.slot()->grad = bucket.numbers.slice(0, at, at + size).reshape(p.shape());  // others' alone
      at += size;
      ++flag;
    }
  }
}

void GradientExchange::abandon(const Error& error) noexcept {
  ranks_.fail(error);
  try {
    worker_.wait();
  } catch (const std::exception&) {  // the error that ended the step is told
  }
}

void GradientExchange::on_begin(const Tape& tape) {
  if (other_ != nullptr) other_->on_begin(tape);
}

void GradientExchange::on_values(const Tape& tape, const Op& op, std::span<const Tensor> values) {
  if (other_ != nullptr) other_->on_values(tape, op, values);
}

void GradientExchange::on_gradients(const Tape& tape, const Node& node) {
  if (other_ != nullptr) other_->on_gradients(tape, node);
}

void GradientExchange::on_complete(const Tape& tape, const std::shared_ptr<Slot>& leaf) {
  if (other_ != nullptr) other_->on_complete(tape, leaf);
  const auto found = bucket_of_.find(leaf.get());
  if (found == bucket_of_.end()) return;
  ++buckets_[found->second].complete;
  while (launched_ < buckets_.size() && buckets_[launched_].complete == buckets_[launched_].parameters.size()) launch();
}

}  // namespace fovea

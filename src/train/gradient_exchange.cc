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
  if (!fits) buckets_.emplace_back().sharers = sharers, add_bucket();
  buckets_.back().parameters.push_back(parameter);
  buckets_.back().size += size;
  add_to_last(parameter);
}

void GradientExchange::launch(std::size_t bucket) {
  worker_.submit([this, bucket] { send(buckets_[bucket]); });
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

void GradientExchange::finish(std::int64_t) {
  launch_rest();
  worker_.wait();
  for (Bucket& bucket : buckets_) {
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

}  // namespace fovea

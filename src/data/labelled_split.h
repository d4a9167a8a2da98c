#pragma once

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "fovea/data.h"

namespace fovea {

// Share of the most frequent of `count` labels: the accuracy of always answering that. 0 for none.
template <class LabelOf>
double majority_of(std::int64_t count, const LabelOf& label_of) {
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, ++counts[label_of(i)]);
  return count == 0 ? 0.0 : static_cast<double>(most) / static_cast<double>(count);
}

// Examples with a class each, or with a number: label(i) is an int32 or a float. The source knows size(), length(i) and
// hash(), too, and fill(context, picks, batch) makes the inputs of a batch.
template <class Source>
class LabelledSplit final : public Split {
 public:
  explicit LabelledSplit(Source source) : source_(std::move(source)) {
    if constexpr (kClasses) majority_ = majority_of(source_.size(), [&](std::int64_t i) { return source_.label(i); });
  }

  std::int64_t size() const override { return source_.size(); }
  std::int64_t length(std::int64_t example) const override { return source_.length(example); }
  std::uint64_t hash() const override { return source_.hash(); }
  double majority() const override { return majority_; }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t /*draw*/) const override {
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.targets = Tensor::empty(context, {std::ssize(picks)}, kClasses ? DType::i32 : DType::f32);
    for (std::size_t i = 0; i < picks.size(); ++i) batch.targets.data<Label>()[i] = source_.label(picks[i]);
    source_.fill(context, picks, batch);
    return batch;
  }

  const Source& source() const { return source_; }

 private:
  using Label = decltype(std::declval<const Source&>().label(0));
  static constexpr bool kClasses = std::is_integral_v<Label>;

  Source source_;
  double majority_ = 0.0;
};

}  // namespace fovea

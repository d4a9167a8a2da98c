#include "data/labelled.h"

#include <algorithm>
#include <string>

#include "data/collate.h"
#include "data/hash.h"
#include "fovea/error.h"

namespace fovea {
namespace {

class LabelledSplit final : public Split {
 public:
  explicit LabelledSplit(std::vector<Example> examples) : examples_(std::move(examples)) {
    int classes = 0;
    for (const Example& example : examples_) classes = std::max(classes, example.label + 1);
    majority_ = majority_share(examples_, classes);
    for (std::size_t i = 0; i < examples_.size(); ++i)
      if (examples_[i].tokens.empty()) fail(ErrorCode::bad_input, "example " + std::to_string(i) + " has no tokens");
  }

  std::int64_t size() const override { return std::ssize(examples_); }
  std::int64_t length(std::int64_t example) const override { return std::ssize(at(example).tokens); }
  std::uint64_t hash() const override {
    Hash hash;
    for (const Example& example : examples_) {
      for (const std::uint8_t token : example.tokens) hash.add(token);
      hash.add(static_cast<std::uint8_t>(example.label));
      hash.add(0);  // padding: in no example
    }
    return hash.value();
  }

  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t /*draw*/) const override {
    Batch batch;
    batch.examples.assign(picks.begin(), picks.end());
    batch.targets = Tensor::empty(context, {std::ssize(picks)}, DType::i32);
    std::vector<std::span<const std::uint8_t>> rows;
    for (std::size_t i = 0; i < picks.size(); ++i) {
      rows.emplace_back(at(picks[i]).tokens);
      batch.targets.data<std::int32_t>()[i] = at(picks[i]).label;
    }
    batch.input = packed_rows<std::uint8_t>(context, rows);
    return batch;
  }

  double majority() const override { return majority_; }
  const std::vector<Example>& examples() const { return examples_; }

 private:
  const Example& at(std::int64_t example) const { return examples_[static_cast<std::size_t>(example)]; }

  std::vector<Example> examples_;
  double majority_ = 0.0;
};

}  // namespace

double majority_share(const std::vector<Example>& examples, int classes) {
  if (examples.empty()) return 0.0;
  std::vector<std::size_t> counts(static_cast<std::size_t>(classes));
  for (const Example& example : examples) ++counts[static_cast<std::size_t>(example.label)];
  return static_cast<double>(*std::max_element(counts.begin(), counts.end())) / static_cast<double>(examples.size());
}

std::shared_ptr<const Split> labelled_split(std::vector<Example> examples) {
  return std::make_shared<LabelledSplit>(std::move(examples));
}

Dataset dataset_of(LabelledData data) {
  Dataset out;
  out.name = std::move(data.name);
  out.task = Task::classify;
  out.classes = data.classes;
  out.vocabulary = data.vocabulary;
  out.max_length = data.max_length;
  out.train = labelled_split(std::move(data.train));
  out.validation = labelled_split(std::move(data.validation));
  out.test = labelled_split(std::move(data.test));
  return out;
}

const std::vector<Example>& labelled_examples(const Split& split) {
  const auto* labelled = dynamic_cast<const LabelledSplit*>(&split);
  if (labelled == nullptr) fail(ErrorCode::usage, "this split does not hold labelled sequences");
  return labelled->examples();
}

}  // namespace fovea

#include "data/labelled.h"

#include <string>

#include "data/collate.h"
#include "data/hash.h"
#include "data/labelled_split.h"
#include "fovea/error.h"

namespace fovea {
namespace {

struct ExampleSource {
  std::vector<Example> examples;

  const Example& at(std::int64_t i) const { return examples[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return std::ssize(examples); }
  std::int64_t length(std::int64_t i) const { return std::ssize(at(i).tokens); }
  std::int32_t label(std::int64_t i) const { return at(i).label; }
  std::uint64_t hash() const {
    Hash hash;
    for (const Example& example : examples) {
      for (const std::uint8_t token : example.tokens) hash.add(token);
      hash.add(static_cast<std::uint8_t>(example.label));
      hash.add(0);  // padding: in no example
    }
    return hash.value();
  }
  void fill(const Context& context, std::span<const std::int64_t> picks, Batch& batch) const {
    std::vector<std::span<const std::uint8_t>> rows;
    for (const std::int64_t pick : picks) rows.emplace_back(at(pick).tokens);
    batch.input = packed_rows<std::uint8_t>(context, rows);
  }
};

}  // namespace

double majority_share(const std::vector<Example>& examples) {
  return majority_of(std::ssize(examples), [&](std::int64_t i) { return examples[static_cast<std::size_t>(i)].label; });
}

std::shared_ptr<const Split> labelled_split(std::vector<Example> examples) {
  for (std::size_t i = 0; i < examples.size(); ++i)
    if (examples[i].tokens.empty()) fail(ErrorCode::bad_input, "example " + std::to_string(i) + " has no tokens");
  return std::make_shared<LabelledSplit<ExampleSource>>(ExampleSource{std::move(examples)});
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
  const auto* labelled = dynamic_cast<const LabelledSplit<ExampleSource>*>(&split);
  if (labelled == nullptr) fail(ErrorCode::usage, "this split does not hold labelled sequences");
  return labelled->source().examples;
}

}  // namespace fovea

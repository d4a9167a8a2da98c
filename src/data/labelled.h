#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data.h"

namespace fovea {

// A labelled sequence of token ids; 0 is padding and never occurs inside.
struct Example {
  std::vector<std::uint8_t> tokens;
  int label = 0;

  bool operator==(const Example&) const = default;
};

// A classification task as plain lists.
struct LabelledData {
  std::string name;
  int classes = 0;
  int vocabulary = 0;  // ids are below this, padding included
  int max_length = 0;  // of any example
  std::vector<Example> train = {}, validation = {}, test = {};
};

// Share of the most frequent label: the accuracy of always answering that. 0 for no examples.
double majority_share(const std::vector<Example>& examples);

// The examples as a data set, packed into batches.
Dataset dataset_of(LabelledData data);
std::shared_ptr<const Split> labelled_split(std::vector<Example> examples);

// The examples behind a split that labelled_split() made.
const std::vector<Example>& labelled_examples(const Split& split);

}  // namespace fovea

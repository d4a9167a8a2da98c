#pragma once

#include "fovea/data.h"

namespace fovea {

// Many sequences of token ids, end to end.
class TokenLists {
 public:
  void add(std::span<const std::int32_t> tokens) {
    ids_.insert(ids_.end(), tokens.begin(), tokens.end());
    offsets_.push_back(ids_.size());
  }
  std::int64_t size() const { return std::ssize(offsets_) - 1; }
  std::span<const std::int32_t> operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return std::span(ids_).subspan(offsets_[at], offsets_[at + 1] - offsets_[at]);
  }
  std::int64_t longest() const;

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> offsets_ = {0};
};

// An example of classify, match or regress: which sequences, and their class or number.
struct LabelledPick {
  std::int64_t first = 0, second = 0;
  std::int32_t label = 0;
  float number = 0.0F;
};

// Sequences with a class or a number each, packed into batches. `second` is given for pairs and may be the same lists:
// a document that belongs to several pairs is kept once.
struct LabelledLists {
  std::shared_ptr<const TokenLists> first, second = {};
  std::vector<LabelledPick> examples = {};
  std::shared_ptr<const TokenLists> types = {};  // where `first` are two texts each: which of them a token belongs to
};
std::shared_ptr<const Split> labelled_split(LabelledLists lists);
std::shared_ptr<const Split> numbered_split(LabelledLists lists);

// Sequence i of `source` belongs to sequence i of `target`; the decoder reads bos and the target, and is asked for the
// target and eos.
struct ParallelLists {
  TokenLists source, target;
  std::int32_t bos = 0, eos = 0;
};
std::shared_ptr<const Split> parallel_split(ParallelLists lists);

}  // namespace fovea

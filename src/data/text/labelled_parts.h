#pragma once

#include <fmt/format.h>

#include "core/parallel.h"
#include "data/kinds.h"
#include "data/text/sequences.h"

// What texts with labels and pairs of papers share.
namespace fovea {

inline constexpr std::int64_t kUsualTextLength = 4000;

// Encodes texts on all threads, cut to the length.
class TextEncoder {
 public:
  TextEncoder(const Context& context, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t length)
      : context_(context), tokenizer_(std::move(tokenizer)), length_(static_cast<std::size_t>(length)) {}

  std::shared_ptr<const TokenLists> operator()(std::span<const std::string_view> texts) const {
    std::vector<std::vector<std::int32_t>> encoded(texts.size());
    parallel_for(context_, std::ssize(texts), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      encoded[at] = tokenizer_->encode(texts[at], true, length_).ids;
    });
    auto lists = std::make_shared<TokenLists>();
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (encoded[i].empty()) fail(ErrorCode::bad_input, fmt::format("text {} has no tokens", i + 1));
      lists->add(encoded[i]);
    }
    return lists;
  }

 private:
  const Context& context_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::size_t length_;
};

// The parts of a data set of texts with labels.
struct TextParts {
  LabelledLists train, validation, test;

  void cut(const DataSettings& settings) {
    keep_first(train.examples, settings.train);
    keep_first(validation.examples, settings.validation);
    keep_first(test.examples, settings.test);
  }
  void fill(Dataset& data) {
    for (const LabelledLists* part : {&train, &validation, &test}) {
      if (!part->first) continue;
      data.max_length = std::max(data.max_length, part->first->longest());
      if (part->second) data.second_max_length = std::max(data.second_max_length, part->second->longest());
    }
    if (data.task == Task::match) data.max_length = std::max(data.max_length, data.second_max_length);
    data.train = labelled_split(std::move(train));
    data.validation = labelled_split(std::move(validation));
    data.test = labelled_split(std::move(test));
  }
};

// Papers and who cites whom, each in a file of its own; or both in one file for each part, as the arena has them.
bool is_paper_pairs(const Path& folder);
Dataset load_paper_pairs(const Context& context, const DataSettings& settings, const DataUse& use);

}  // namespace fovea

#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.h"
#include "data/kinds.h"
#include "data/text/sequences.h"

// What texts with labels and pairs of papers share.
namespace fovea {

inline constexpr std::int64_t kUsualTextLength = 4000;

// Two texts each, as one. Types are none where the tokeniser gives both the same.
struct JoinedTexts {
  std::shared_ptr<const TokenLists> ids, types;
};

// Encodes texts on all threads, cut to the length.
class TextEncoder {
 public:
  TextEncoder(const Context& context, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t length)
      : context_(context), tokenizer_(std::move(tokenizer)), length_(static_cast<std::size_t>(length)) {}

  std::shared_ptr<const TokenLists> operator()(std::span<const std::string_view> texts) const {
    return all(texts.size(), [&](std::size_t i) { return tokenizer_->encode(texts[i], true, length_); }).ids;
  }

  // Of a tokeniser that tells where one ends and the other begins.
  JoinedTexts joined(std::span<const std::string_view> first, std::span<const std::string_view> second) const {
    if (!tokenizer_->special_ids().sep)
      fail(ErrorCode::usage, "the tokeniser has no token to stand between two texts", "data.joined",
           "--set data.joined=false, or --from an import of BERT");
    return all(first.size(),
               [&](std::size_t i) { return tokenizer_->encode_pair(first[i], second[i], true, length_); });
  }

 private:
  template <class Encode>
  JoinedTexts all(std::size_t count, const Encode& encode) const {
    std::vector<Encoding> encoded(count);
    parallel_for(context_, static_cast<std::int64_t>(count), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      encoded[at] = encode(at);
      encoded[at].offsets = {};
      encoded[at].sources = encoded[at].special = {};
    });
    auto ids = std::make_shared<TokenLists>(), types = std::make_shared<TokenLists>();
    bool differ = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (encoded[i].ids.empty()) fail(ErrorCode::bad_input, fmt::format("text {} has no tokens", i + 1));
      ids->add(encoded[i].ids);
      types->add(encoded[i].types);
      differ = differ || std::any_of(encoded[i].types.begin(), encoded[i].types.end(), [](auto t) { return t != 0; });
    }
    return {std::move(ids), differ ? std::move(types) : nullptr};
  }

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
    std::shared_ptr<const Split> (*const split)(LabelledLists) =
        data.task == Task::regress ? numbered_split : labelled_split;
    if (train.second) data.max_length = std::max(data.max_length, data.second_max_length);
    data.train = split(std::move(train));
    data.validation = split(std::move(validation));
    data.test = split(std::move(test));
  }
};

// Papers and who cites whom, each in a file of its own; or both in one file for each part, as the arena has them.
bool is_paper_pairs(const Path& folder);
Dataset load_paper_pairs(const Context& context, const DataSettings& settings, const DataUse& use);

}  // namespace fovea

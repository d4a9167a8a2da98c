#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <unordered_map>

#include "core/parallel.h"
#include "fovea/error.h"
#include "text/byte_level.h"
#include "text/flat_map.h"
#include "text/state.h"
#include "text/utf8.h"

namespace fovea {
namespace {

using text::pair_key;

using Counts = std::unordered_map<std::string_view, std::int64_t>;

// How often each word occurs, in order of the words: the result must not depend on threads.
std::vector<std::pair<std::string_view, std::int64_t>> count_words(const Context& context,
                                                                   std::span<const std::string_view> texts) {
  constexpr std::size_t kPart = 1 << 20;
  std::vector<std::string_view> parts;
  for (std::string_view rest : texts)
    while (!rest.empty()) {
      const std::size_t end = rest.size() > 2 * kPart ? text::gpt2_safe_place(rest, kPart) : rest.size();
      parts.push_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
  const auto count = static_cast<std::int64_t>(parts.size());
  std::vector<Counts> counts(static_cast<std::size_t>(context.threads()));
  parallel(context.threads(), [&](const Team& team) {
    Counts& mine = counts[static_cast<std::size_t>(team.rank())];
    std::vector<text::Range> pieces;
    for (std::int64_t i = team.take(); i < count; i = team.take()) {
      const std::string_view part = parts[static_cast<std::size_t>(i)];
      pieces.clear();
      text::gpt2_cut(part, {0, static_cast<std::uint32_t>(part.size())}, pieces);
      for (const text::Range& piece : pieces) ++mine[part.substr(piece.begin, piece.size())];
    }
  });
  for (std::size_t i = 1; i < counts.size(); ++i)
    for (const auto& [word, times] : counts[i]) counts[0][word] += times;
  std::vector<std::pair<std::string_view, std::int64_t>> all(counts[0].begin(), counts[0].end());
  std::sort(all.begin(), all.end());
  return all;
}

// Learns merges: the most frequent pair of neighbours becomes a token, again and again; of pairs that are equally
// frequent the one with the smaller ids. Pairs wait in a heap with the count they had when they were put there, and
// the words they may occur in; one whose count has changed since goes back.
class Learner {
 public:
  Learner(const BpeTraining& training, text::ModelData& data) : training_(training), data_(data) {
    for (const std::string& token : training.special_tokens) add_token(token);
    std::map<char32_t, unsigned char> alphabet;  // ids by the character that stands for the byte
    for (int byte = 0; byte < 256; ++byte)
      alphabet[text::byte_character(static_cast<unsigned char>(byte))] = static_cast<unsigned char>(byte);
    for (const auto& [code, byte] : alphabet) byte_ids_[byte] = add_token(text::to_utf8(code));
  }

  void add_words(std::span<const std::pair<std::string_view, std::int64_t>> words) {
    for (const auto& [word, count] : words) {
      Word& added = words_.emplace_back();
      added.count = count;
      for (const char byte : word) added.symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      const auto index = static_cast<std::uint32_t>(words_.size() - 1);
      for (std::size_t i = 1; i < added.symbols.size(); ++i)
        change(pair_key(added.symbols[i - 1], added.symbols[i]), count, index);
    }
    queue_changed();
  }

  void learn() {
    while (data_.vocabulary.size() < training_.vocabulary && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = *counts_.find(top.pair);
      if (count != top.count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (count < std::max<std::int64_t>(1, training_.min_frequency)) return;
      merge(top);
      if (training_.progress && data_.merges.size() % 256 == 0)
        training_.progress(data_.vocabulary.size(), training_.vocabulary);
    }
  }

 private:
  struct Word {
    std::vector<std::int32_t> symbols;
    std::int64_t count = 0;
  };
  struct Candidate {
    std::uint64_t pair;
    std::int64_t count;
    std::vector<std::uint32_t> words;

    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  std::int32_t add_token(const std::string& token) {
    if (const auto known = data_.vocabulary.find(token)) return *known;
    const auto id = static_cast<std::int32_t>(data_.vocabulary.size());
    data_.vocabulary.add(token, id);
    return id;
  }

  void change(std::uint64_t pair, std::int64_t by, std::uint32_t word) {
    std::int64_t* count = counts_.find(pair);
    if (count == nullptr) {
      counts_.insert(pair, 0);
      count = counts_.find(pair);
    }
    *count += by;
    if (by <= 0) return;
    std::vector<std::uint32_t>& words = changed_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void queue_changed() {
    for (auto& [pair, words] : changed_)
      if (const std::int64_t count = *counts_.find(pair); count > 0) queue_.push({pair, count, std::move(words)});
    changed_.clear();
  }

  void merge(const Candidate& candidate) {
    const auto left = static_cast<std::int32_t>(candidate.pair >> 32);
    const auto right = static_cast<std::int32_t>(candidate.pair & 0xFFFFFFFFu);
    const std::string first = *data_.vocabulary.token(left), second = *data_.vocabulary.token(right);
    const std::int32_t id = add_token(first + second);
    // A pair comes up again when its tokens were later made in another way; the last time counts.
    const std::size_t rank = data_.merges.size();
    if (const std::size_t* earlier = ranks_.find(candidate.pair)) data_.merges[*earlier] = {};
    if (!ranks_.insert(candidate.pair, rank)) *ranks_.find(candidate.pair) = rank;
    data_.merges.emplace_back(first, second);
    for (const std::uint32_t word : candidate.words) merge_in(word, left, right, id);
    queue_changed();
  }

  void merge_in(std::uint32_t index, std::int32_t left, std::int32_t right, std::int32_t id) {
    std::vector<std::int32_t>& symbols = words_[index].symbols;
    const std::int64_t count = words_[index].count;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i, ++kept) {
      symbols[kept] = symbols[i];
      if (symbols[i] != left || i + 1 == symbols.size() || symbols[i + 1] != right) continue;
      ++i;
      symbols[kept] = id;
      if (kept > 0) {
        change(pair_key(symbols[kept - 1], left), -count, index);
        change(pair_key(symbols[kept - 1], id), count, index);
      }
      if (i + 1 < symbols.size()) {
        change(pair_key(right, symbols[i + 1]), -count, index);
        change(pair_key(id, symbols[i + 1]), count, index);
      }
    }
    symbols.resize(kept);
  }

  const BpeTraining& training_;
  text::ModelData& data_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Word> words_;
  text::FlatMap<std::int64_t> counts_;
  text::FlatMap<std::size_t> ranks_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Tokenizer Tokenizer::train_bpe(const Context& context, std::span<const std::string_view> texts,
                               const BpeTraining& training) {
  const auto least = static_cast<std::int64_t>(256 + training.special_tokens.size());
  constexpr std::int64_t kMost = 1 << 24;
  if (training.vocabulary < least || training.vocabulary > kMost)
    fail(ErrorCode::usage, fmt::format("a vocabulary of {}", training.vocabulary), "vocabulary",
         fmt::format("{} to {}: special tokens, the 256 bytes, then merges", least, kMost));
  text::Document document;
  document.where = "tokenizer";
  document.settings = text::empty_settings("BPE");
  Learner learner(training, document.data);
  learner.add_words(count_words(context, texts));
  learner.learn();
  std::erase_if(document.data.merges, [](const auto& merge) { return merge.first.empty(); });
  if (training.progress) training.progress(document.data.vocabulary.size(), training.vocabulary);
  const JsonMap level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  document.settings["pre_tokenizer"] = document.settings["decoder"] = document.settings["post_processor"] = level;
  document.settings["post_processor"]["trim_offsets"] = false;
  for (const std::string& token : training.special_tokens)
    document.settings["added_tokens"].push_back(
        text::added_token_json({.content = token, .id = *document.data.vocabulary.find(token), .special = true}));
  return State::make(std::move(document));
}

}  // namespace fovea

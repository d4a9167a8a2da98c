#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "fovea/error.h"
#include "text/model.h"
#include "text/trie.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the lowest score of the vocabulary

// The way through a piece whose tokens have the largest sum of scores, by dynamic programming over its characters.
// Unknown characters that follow each other become one token.
class Unigram final : public Model {
 public:
  Unigram(Settings& settings, const ModelData& data) : vocabulary_(data.vocabulary), scores_(data.scores) {
    const auto size = static_cast<std::int64_t>(scores_.size());
    const std::int64_t unknown = settings.number("unk_id", -1);
    if (unknown >= size) settings.refuse(fmt::format("id {} of a vocabulary of {}", unknown, size), "unk_id");
    unknown_ = static_cast<std::int32_t>(unknown);
    fallback_ = settings.flag("byte_fallback", false);
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int32_t id = 0; id < size; ++id) {
      const std::string& token = *vocabulary_.token(id);
      trie_.insert(token, vocabulary_.find(token).value());
      lowest = std::min(lowest, scores_[static_cast<std::size_t>(id)]);
    }
    unknown_score_ = lowest - kUnknownPenalty;
  }

  void encode(std::string_view piece, Scratch& scratch, std::vector<Token>& tokens) const override {
    if (piece.empty()) return;
    find_best(piece, scratch.steps);
    const std::size_t first = tokens.size();
    for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0;) {
      const Scratch::Step& step = scratch.steps[end];
      const auto begin = static_cast<std::uint32_t>(step.begin);
      const bool follows = tokens.size() > first && tokens.back().id == unknown_ && step.id == unknown_;
      if (follows)
        tokens.back().range.begin = begin;
      else
        tokens.push_back({step.id, {begin, end}});
      end = begin;
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
    name_unknown(piece, first, tokens);
  }

 private:
  void find_best(std::string_view piece, std::vector<Scratch::Step>& steps) const {
    steps.assign(piece.size() + 1, {});
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
      Scratch::Step& target = steps[end];
      const double total = score + steps[begin].score;
      if (target.begin < 0 || total > target.score) target = {total, id, static_cast<std::int32_t>(begin)};
    };
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t size = decode(piece, begin).size;
      bool single = false;
      trie_.prefixes(piece.substr(begin), [&](std::size_t length, std::int32_t id) {
        offer(begin, begin + length, scores_[static_cast<std::size_t>(id)], id);
        single = single || length == size;
      });
      if (!single) {
        if (unknown_ < 0)
          fail(ErrorCode::bad_input, fmt::format("\"{}\" is not in the vocabulary, which has no unknown token",
                                                 std::string(piece.substr(begin, size))));
        offer(begin, begin + size, unknown_score_, unknown_);
      }
      begin += size;
    }
  }

  // Unknown text becomes the tokens of its bytes where the vocabulary has them; each stands for all of it.
  void name_unknown(std::string_view piece, std::size_t first, std::vector<Token>& tokens) const {
    std::vector<Token> out;
    for (std::size_t i = first; i < tokens.size(); ++i) {
      const Token token = tokens[i];
      const std::string_view text = piece.substr(token.range.begin, token.range.size());
      const bool unknown = token.id == unknown_;
      const auto known = unknown ? vocabulary_.find(text) : std::nullopt;
      if (known)
        out.push_back({*known, token.range});
      else if (!unknown || !fallback_ || !add_bytes(text, token.range, out))
        out.push_back(token);
    }
    tokens.resize(first);
    tokens.insert(tokens.end(), out.begin(), out.end());
  }

  bool add_bytes(std::string_view text, Range range, std::vector<Token>& out) const {
    const std::size_t before = out.size();
    for (const char byte : text) {
      const auto id = vocabulary_.find(byte_token(static_cast<unsigned char>(byte)));
      if (!id) {
        out.resize(before);
        return false;
      }
      out.push_back({*id, range});
    }
    return true;
  }

  const Vocabulary& vocabulary_;
  const std::vector<double>& scores_;
  std::int32_t unknown_ = -1;
  bool fallback_ = false;
  double unknown_score_ = 0;
  Trie trie_;
};

}  // namespace

std::unique_ptr<Model> read_unigram(Settings& settings, const ModelData& data) {
  return std::make_unique<Unigram>(settings, data);
}

}  // namespace fovea::text

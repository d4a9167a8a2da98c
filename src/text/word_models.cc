#include <fmt/format.h>

#include "fovea/error.h"
#include "text/model.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

Range whole(std::string_view piece) { return {0, static_cast<std::uint32_t>(piece.size())}; }

// The id of the token for words the vocabulary does not have; a vocabulary without one fails when it is needed.
class Unknown {
 public:
  Unknown(const Vocabulary& vocabulary, std::string token) : id_(vocabulary.find(token)), token_(std::move(token)) {}

  std::int32_t id(std::string_view piece) const {
    if (!id_)
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is not in the vocabulary, nor is the unknown token \"{}\"",
                                             std::string(piece.substr(0, 40)), token_));
    return *id_;
  }

 private:
  std::optional<std::int32_t> id_;
  std::string token_;
};

// The longest beginning of what is left, again and again; a word that cannot be covered is unknown as a whole.
class WordPiece final : public Model {
 public:
  WordPiece(Settings& settings, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        unknown_(vocabulary, settings.text("unk_token", "[UNK]")),
        prefix_(settings.text("continuing_subword_prefix", "##")),
        longest_(settings.number("max_input_chars_per_word", 100)) {}

  void encode(std::string_view piece, Scratch& scratch, std::vector<Token>& tokens) const override {
    const std::size_t before = tokens.size();
    std::int64_t characters = 0;
    for_characters(piece, [&](const Character&, std::size_t) { ++characters; });
    std::uint32_t at = 0;
    while (characters <= longest_ && at < piece.size() && add_longest(piece, at, scratch.text, tokens))
      at = tokens.back().range.end;
    if (at == piece.size()) return;
    tokens.resize(before);
    tokens.push_back({unknown_.id(piece), whole(piece)});
  }

 private:
  bool add_longest(std::string_view piece, std::uint32_t begin, std::string& name, std::vector<Token>& tokens) const {
    name.assign(begin > 0 ? prefix_ : "");
    const std::size_t head = name.size();
    name += piece.substr(begin);
    while (name.size() > head) {
      const auto size = static_cast<std::uint32_t>(name.size() - head);
      if (const auto id = vocabulary_.find(name)) {
        tokens.push_back({*id, {begin, begin + size}});
        return true;
      }
      name.resize(character_begin(name, name.size() - 1));
    }
    return false;
  }

  const Vocabulary& vocabulary_;
  Unknown unknown_;
  std::string prefix_;
  std::int64_t longest_;
};

class WordLevel final : public Model {
 public:
  WordLevel(Settings& settings, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), unknown_(vocabulary, settings.text("unk_token", "<unk>")) {}

  void encode(std::string_view piece, Scratch&, std::vector<Token>& tokens) const override {
    const auto id = vocabulary_.find(piece);
    tokens.push_back({id ? *id : unknown_.id(piece), whole(piece)});
  }

 private:
  const Vocabulary& vocabulary_;
  Unknown unknown_;
};

}  // namespace

std::unique_ptr<Model> read_wordpiece(Settings& settings, const ModelData& data) {
  return std::make_unique<WordPiece>(settings, data.vocabulary);
}

std::unique_ptr<Model> read_wordlevel(Settings& settings, const ModelData& data) {
  return std::make_unique<WordLevel>(settings, data.vocabulary);
}

}  // namespace fovea::text

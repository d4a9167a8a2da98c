#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/aligned.h"
#include "text/settings.h"

namespace fovea::text {

// A token of a piece: its id and its bytes there.
struct Token {
  std::int32_t id = 0;
  Range range;
};

// The strings of a vocabulary and their ids.
class Vocabulary {
 public:
  void add(std::string token, std::int32_t id);  // refuses an id that is taken

  std::optional<std::int32_t> find(std::string_view token) const;
  const std::string* token(std::int64_t id) const;                                 // null: no such id
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }  // the largest id and one
  std::size_t count() const { return ids_.size(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // keys of ids_, which stay where they are
};

// What a model is made of, apart from its settings.
struct ModelData {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // of BPE, in order of rank
  std::vector<double> scores;                               // of Unigram, by id
};

// Memory that a model uses while it encodes; one for each thread.
struct Scratch {
  struct Symbol {
    std::int32_t id;
    Range range;
    std::int32_t previous, next;  // -1: none
  };
  struct Merge {
    std::uint32_t rank;
    std::int32_t at, id;
  };
  struct Step {
    double score = 0;
    std::int32_t id = 0;
    std::int32_t begin = -1;  // -1: not reached
  };
  std::vector<Symbol> symbols;
  std::vector<Merge> queue;
  std::vector<Step> steps;
  std::string text;
};

// Encodes a piece of text. Thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual void encode(std::string_view piece, Scratch& scratch, std::vector<Token>& tokens) const = 0;
};

// The type of the model in a file; old files leave it out.
std::string model_type(Settings& settings);

// `bytes`: pieces are bytes rather than the characters that stand for them in a byte-level vocabulary; of BPE only.
std::unique_ptr<Model> read_bpe(Settings& settings, const ModelData& data, bool bytes);
std::unique_ptr<Model> read_wordpiece(Settings& settings, const ModelData& data);
std::unique_ptr<Model> read_unigram(Settings& settings, const ModelData& data);
std::unique_ptr<Model> read_wordlevel(Settings& settings, const ModelData& data);

// "<0x41>": how vocabularies with a fallback to bytes name them.
std::string byte_token(unsigned char byte);

}  // namespace fovea::text

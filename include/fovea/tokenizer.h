#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/context.h"
#include "fovea/export.h"

namespace fovea {

// The tokens of a text, one entry each in every list.
struct Encoding {
  std::vector<std::int32_t> ids;
  // First and one past the last byte of the text; of a pair, of the token's own text. {0, 0} for special tokens.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> offsets;
  std::vector<std::int32_t> sources;  // the text it is from: 0, or 1 for the second of a pair; -1 for special tokens
  std::vector<std::int32_t> types;    // the segment: 0, or 1 in the second text of a pair
  std::vector<std::int32_t> special;  // 1 for a token that is not from the text, such as [CLS]
};

// Tokens with a role, where the tokeniser has them.
struct SpecialIds {
  std::optional<std::int32_t> bos, eos, pad, unk, mask, cls, sep;
};

struct BpeTraining {
  std::int64_t vocabulary = 8000;                // ids in all: special tokens, the 256 bytes, then merges
  std::vector<std::string> special_tokens = {};  // the first ids, in this order
  std::int64_t min_frequency = 2;                // of a pair that is merged
  std::function<void(std::int64_t done, std::int64_t wanted)> progress = {};  // ids so far; now and then
};

// Text to ids and back: byte-level and other BPE, WordPiece, Unigram, words, characters, bytes. Reads and writes the
// tokenizer.json format and gives the ids and offsets that format's own library gives. A cheap handle; every const
// method may be called from several threads at once.
//
// Text need not be valid UTF-8. Byte-level tokenisers keep every byte; the others see U+FFFD in the place of each byte
// that belongs to no character. Offsets are of the bytes as they were given.
class FOVEA_EXPORT Tokenizer {
 public:
  // A folder or a file: tokenizer.json; vocab.json beside merges.txt; vocab.txt of BERT; a llama2.c tokenizer.bin.
  static Tokenizer load(const std::string& path);

  static Tokenizer bytes();                                              // the id is the byte
  static Tokenizer characters(std::span<const std::string_view> texts);  // 0 is <unk>, then those seen, by code point
  // Words between white space; 0 is <unk>, then the most frequent, `limit` ids in all (0: every word).
  static Tokenizer words(std::span<const std::string_view> texts, std::int64_t limit = 0);
  // Byte-level BPE with GPT-2's way of cutting words.
  static Tokenizer train_bpe(const Context& context, std::span<const std::string_view> texts,
                             const BpeTraining& training = {});

  // `max_length` tokens at most, special ones included; 0: all. The file says from which end the rest is cut.
  Encoding encode(std::string_view text, bool special_tokens = true, std::size_t max_length = 0) const;
  Encoding encode_pair(std::string_view first, std::string_view second, bool special_tokens = true,
                       std::size_t max_length = 0) const;
  // The ids of many texts, on all threads of the context; long texts are shared out where that changes nothing.
  std::vector<std::vector<std::int32_t>> encode_all(const Context& context, std::span<const std::string_view> texts,
                                                    bool special_tokens = true) const;

  // Ids that the vocabulary does not have give no text.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;

  // Text token by token, as it is generated; what is said is never half a character.
  class FOVEA_EXPORT Stream {
   public:
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;
    ~Stream();

    std::string next(std::int32_t id);  // what the token adds; empty while a character is unfinished
    std::string finish();               // what is left: an unfinished character as U+FFFD

   private:
    friend class Tokenizer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  Stream decode_stream(bool skip_special = true) const;

  std::int64_t vocabulary() const;  // ids are below this
  std::optional<std::int32_t> id(std::string_view token) const;
  std::string_view token(std::int32_t id) const;  // as the vocabulary writes it; empty: no such id
  bool is_special(std::int32_t id) const;
  SpecialIds special_ids() const;
  std::size_t truncation() const;   // the length the file asks for; 0: none
  std::string fingerprint() const;  // the same for tokenisers that give the same ids from the same file

  // Writes tokenizer.json, and tokenizer_config.json with the roles of the special tokens.
  void save(const std::string& folder) const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace fovea

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/aligned.h"
#include "text/normalizer.h"
#include "text/trie.h"

namespace fovea::text {

// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;                      // only between characters that are no part of a word
  bool strip_left = false, strip_right = false;  // takes the white space on that side
  bool normalized = false;                       // looked for in the text after the normalizer
  bool special = false;                          // left out when decoding
};

AddedToken read_added_token(Settings settings);

// A part of a text: an added token, or text (id -1).
struct Segment {
  Range range;
  std::int32_t id = -1;
};

// The added tokens of one kind (normalized or not), found leftmost and longest.
class AddedTokens {
 public:
  // The normalizer changes what is looked for; null: as it is.
  void add(const AddedToken& token, const Normalizer* normalizer);

  bool empty() const { return trie_.empty(); }
  void cut(std::string_view all, Range within, std::vector<Segment>& segments) const;

 private:
  Range grown(std::string_view text, Range match, std::uint32_t from, const AddedToken& token) const;

  Trie trie_;
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> starts_{};  // the first bytes of tokens
};

}  // namespace fovea::text

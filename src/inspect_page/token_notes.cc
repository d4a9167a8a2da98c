#include "inspect_page/token_notes.h"

#include <algorithm>
#include <array>

#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea {
namespace {

bool is_delimiter(std::string_view token) {
  bool all = true;
  text::for_characters(token, [&](const text::Character& c, std::size_t) {
    all = all && c.valid && (text::is_punctuation(c.code) || text::kind_of(c.code) == text::Kind::space);
  });
  return all;
}

}  // namespace

std::vector<std::uint8_t> delimiters_of(const Encoding& encoding, std::string_view text) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [first, last] = encoding.offsets[i];
    out.push_back(encoding.special[i] != 0 || is_delimiter(text.substr(first, last - first)) ? 1 : 0);
  }
  return out;
}

std::vector<std::uint8_t> delimiters_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::vector<std::uint8_t> out;
  for (const std::int32_t id : ids)
    out.push_back(tokenizer.is_special(id) || is_delimiter(tokenizer.decode(std::array{id}, false)) ? 1 : 0);
  return out;
}

std::vector<std::int32_t> words_of(const Encoding& encoding, const TaggedText& tagged) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    std::size_t first = encoding.offsets[i].first;
    const std::size_t last = encoding.offsets[i].second;
    while (first < last && tagged.text[first] == ' ') ++first;  // many tokens begin with the space before them
    // The last word that begins at or before it; those without text of their own have their place at its end.
    const auto after = std::upper_bound(tagged.places.begin(), tagged.places.end(), first,
                                        [](std::size_t at, const auto& place) { return at < place.first; });
    std::int32_t word = static_cast<std::int32_t>(after - tagged.places.begin()) - 1;
    while (word >= 0 &&
           tagged.places[static_cast<std::size_t>(word)].first == tagged.places[static_cast<std::size_t>(word)].second)
      --word;
    const bool inside = encoding.special[i] == 0 && first < last && word >= 0 &&
                        first < tagged.places[static_cast<std::size_t>(word)].second;
    out.push_back(inside ? word : -1);
  }
  return out;
}

}  // namespace fovea

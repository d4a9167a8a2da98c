#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// UTF-8 as it comes from outside: a byte that belongs to no valid character counts as one character of its own.
namespace fovea::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct Character {
  char32_t code = 0;  // kReplacement where `valid` is false
  std::uint32_t size = 1;
  bool valid = true;
};

// The character that begins at text[at]; `at` is inside.
Character decode_slow(std::string_view text, std::size_t at);
inline Character decode(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, true};
  return decode_slow(text, at);
}

void append_utf8(std::string& out, char32_t code);
std::string to_utf8(char32_t code);
std::uint32_t utf8_size(char32_t code);

bool is_valid_utf8(std::string_view text);
bool is_ascii(std::string_view text);

// The bounds of the characters that hold text[at] and text[at - 1].
std::size_t character_begin(std::string_view text, std::size_t at);
std::size_t character_end(std::string_view text, std::size_t at);

// Each part of the text that begins like a character and then breaks off becomes one U+FFFD, as the Unicode standard
// recommends; other wrong bytes become one each.
std::string replace_invalid(std::string_view text);

// How many bytes at the end may be the beginning of a character that more bytes would complete.
std::size_t unfinished_bytes(std::string_view text);

// Calls visit(character, position) for each.
template <class Visit>
void for_characters(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const Character c = decode(text, at);
    visit(c, at);
    at += c.size;
  }
}

}  // namespace fovea::text

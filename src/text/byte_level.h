#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"

// GPT-2's byte-level alphabet: every byte has a printable character, so that a vocabulary of bytes can be written as
// text. A space is U+0120.
namespace fovea::text {

inline constexpr char32_t kByteSpace = 0x120;

char32_t byte_character(unsigned char byte);
std::optional<unsigned char> character_byte(char32_t code);

std::string bytes_as_characters(std::string_view bytes);
std::optional<std::string> characters_as_bytes(std::string_view text);  // none: another character is among them

// Cuts text[within] as GPT-2 does: contractions, words, numbers and other signs, each with the space before it, and the
// rest of the white space. Written out rather than matched, since every byte of a corpus passes here. Invalid bytes
// count as other signs.
void gpt2_cut(std::string_view text, Range within, std::vector<Range>& pieces);

// The first place from `from` on where gpt2_cut gives the same pieces for the two halves as for the whole: between a
// letter or digit of ASCII and a space. The end where there is none.
std::size_t gpt2_safe_place(std::string_view text, std::size_t from);

}  // namespace fovea::text

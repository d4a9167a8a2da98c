#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

// What Unicode says of characters; utf8proc's tables, in the terms tokenisers use.
namespace fovea::text {

bool is_white_space(char32_t code);
bool is_letter(char32_t code);       // general category L
bool is_number(char32_t code);       // N
bool is_punctuation(char32_t code);  // P, and every ASCII character that is neither letter, digit, space nor control
bool is_word(char32_t code);         // \w: alphabetic, marks, decimal digits, connectors, joiners
bool is_mark(char32_t code);         // M
bool is_nonspacing_mark(char32_t code);
bool is_control(char32_t code);  // control, format, private use and surrogate; not tab, line feed, carriage return
bool is_ideograph(char32_t code);

// The kinds that GPT-2's way of cutting text tells apart, from a table: one look-up a character.
enum class Kind : std::uint8_t { other, letter, number, space };
const Kind* ascii_kinds();  // 128 of them
Kind kind_of(char32_t code);

// Calls emit(code) for each character of the lower case: one, but for U+0130.
template <class Emit>
void lower_case(char32_t code, Emit&& emit);
char32_t simple_lower(char32_t code);

std::uint8_t combining_class(char32_t code);
std::u32string_view decomposition(char32_t code, bool compatible);  // full; empty: it stands for itself
char32_t composition(char32_t first, char32_t second);              // 0: none

// The bounds of the user-perceived characters (extended grapheme clusters), the text's end included. Valid UTF-8.
std::vector<std::uint32_t> grapheme_ends(std::string_view text);

template <class Emit>
void lower_case(char32_t code, Emit&& emit) {
  emit(simple_lower(code));
  if (code == 0x130) emit(char32_t{0x307});
}

}  // namespace fovea::text

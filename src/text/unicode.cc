#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "fovea/error.h"

namespace fovea::text {
namespace {

constexpr std::uint32_t kCodes = 0x110000;

using Ranges = std::span<const std::pair<char32_t, char32_t>>;

bool is_in(char32_t code, Ranges ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) { return code >= r.first && code <= r.second; });
}

// Sets of general categories, a bit each.
constexpr std::uint32_t set_of(std::initializer_list<utf8proc_category_t> categories) {
  std::uint32_t set = 0;
  for (const utf8proc_category_t category : categories) set |= 1u << category;
  return set;
}
constexpr std::uint32_t kLetters = set_of(
    {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
constexpr std::uint32_t kMarks = set_of({UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME});
constexpr std::uint32_t kNumbers = set_of({UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO});
constexpr std::uint32_t kPunctuation =
    set_of({UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
            UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO});
constexpr std::uint32_t kControls =
    set_of({UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CS});

utf8proc_int32_t signed_code(char32_t code) { return static_cast<utf8proc_int32_t>(code); }
bool has(char32_t code, std::uint32_t categories) {
  return (1u << utf8proc_category(signed_code(code)) & categories) != 0;
}

Kind find_kind(char32_t code) {
  if (is_white_space(code)) return Kind::space;
  if (is_letter(code)) return Kind::letter;
  return is_number(code) ? Kind::number : Kind::other;
}

std::u32string find_decomposition(char32_t code, bool compatible) {
  std::array<utf8proc_int32_t, 32> codes;
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t size = utf8proc_decompose_char(signed_code(code), codes.data(), codes.size(),
                                                        static_cast<utf8proc_option_t>(options), nullptr);
  if (size < 0 || (size == 1 && codes[0] == signed_code(code))) return {};
  return {codes.begin(), codes.begin() + size};
}

// Decompositions by character: they are asked for once a character of the text.
const std::unordered_map<char32_t, std::u32string>& decompositions(bool compatible) {
  const auto build = [](bool compatible) {
    std::unordered_map<char32_t, std::u32string> all;
    for (char32_t code = 0x80; code < kCodes; ++code) {
      if (code == 0xAC00) code = 0xD7A4;  // Hangul syllables follow a rule
      std::u32string found = find_decomposition(code, compatible);
      if (!found.empty()) all.emplace(code, std::move(found));
    }
    return all;
  };
  if (compatible) {
    static const auto all = build(true);
    return all;
  }
  static const auto all = build(false);
  return all;
}

}  // namespace

bool is_white_space(char32_t code) {
  constexpr std::array<std::pair<char32_t, char32_t>, 10> kSpaces{{{0x09, 0x0D},
                                                                   {0x20, 0x20},
                                                                   {0x85, 0x85},
                                                                   {0xA0, 0xA0},
                                                                   {0x1680, 0x1680},
                                                                   {0x2000, 0x200A},
                                                                   {0x2028, 0x2029},
                                                                   {0x202F, 0x202F},
                                                                   {0x205F, 0x205F},
                                                                   {0x3000, 0x3000}}};
  return is_in(code, kSpaces);
}
bool is_letter(char32_t code) { return has(code, kLetters); }
bool is_number(char32_t code) { return has(code, kNumbers); }
bool is_mark(char32_t code) { return has(code, kMarks); }
bool is_nonspacing_mark(char32_t code) { return utf8proc_category(signed_code(code)) == UTF8PROC_CATEGORY_MN; }

bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !has(code, kLetters | kNumbers);
  return has(code, kPunctuation);
}

bool is_word(char32_t code) {
  constexpr std::uint32_t kWord =
      kLetters | kMarks | set_of({UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_PC});
  // The joiners, and what is alphabetic without being a letter, a mark or a letter number: letters in circles and
  // squares.
  constexpr std::array<std::pair<char32_t, char32_t>, 5> kOthers{
      {{0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}}};
  return has(code, kWord) || is_in(code, kOthers);
}

bool is_control(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return has(code, kControls);
}

bool is_ideograph(char32_t code) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks{{{0x4E00, 0x9FFF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x20000, 0x2A6DF},
                                                                  {0x2A700, 0x2B73F},
                                                                  {0x2B740, 0x2B81F},
                                                                  {0x2B920, 0x2CEAF},
                                                                  {0xF900, 0xFAFF},
                                                                  {0x2F800, 0x2FA1F}}};
  return is_in(code, kBlocks);
}

const Kind* ascii_kinds() {
  static const auto kinds = [] {
    std::array<Kind, 128> all;
    for (char32_t code = 0; code < all.size(); ++code) all[code] = find_kind(code);
    return all;
  }();
  return kinds.data();
}

Kind kind_of(char32_t code) {
  static const std::vector<Kind> kinds = [] {  // about a megabyte, made in 20 ms when a text first leaves ASCII
    std::vector<Kind> all(kCodes);
    for (char32_t c = 0; c < kCodes; ++c) all[c] = find_kind(c);
    return all;
  }();
  return kinds[code];
}

char32_t simple_lower(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return static_cast<char32_t>(utf8proc_tolower(signed_code(code)));
}

std::uint8_t combining_class(char32_t code) {
  return code < 0x300 ? 0 : static_cast<std::uint8_t>(utf8proc_get_property(signed_code(code))->combining_class);
}

std::u32string_view decomposition(char32_t code, bool compatible) {
  if (code < 0x80) return {};
  if (code >= 0xAC00 && code < 0xD7A4) {  // Hangul: lead, vowel and perhaps tail consonant
    thread_local std::u32string syllable;
    const char32_t index = code - 0xAC00, tail = index % 28;
    syllable = {0x1100 + index / 588, 0x1161 + index % 588 / 28};
    if (tail != 0) syllable.push_back(0x11A7 + tail);
    return syllable;
  }
  const auto& all = decompositions(compatible);
  const auto found = all.find(code);
  return found == all.end() ? std::u32string_view() : std::u32string_view(found->second);
}

char32_t composition(char32_t first, char32_t second) {
  std::array<utf8proc_int32_t, 2> pair{signed_code(first), signed_code(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair.data(), 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

std::vector<std::uint32_t> grapheme_ends(std::string_view text) {
  std::vector<std::uint32_t> ends;
  utf8proc_int32_t before = -1, state = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                                    static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (bytes <= 0) fail(ErrorCode::internal, "graphemes of what is not UTF-8");
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, code, &state))
      ends.push_back(static_cast<std::uint32_t>(at));
    before = code;
    at += static_cast<std::size_t>(bytes);
  }
  if (!text.empty()) ends.push_back(static_cast<std::uint32_t>(text.size()));
  return ends;
}

}  // namespace fovea::text

#include "text/unicode.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utext.h>

#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fovea/error.h"

namespace fovea::text {
namespace {

constexpr std::uint32_t kCodes = 0x110000;

UChar32 icu(char32_t code) { return static_cast<UChar32>(code); }
bool has(char32_t code, std::uint32_t categories) { return (U_GET_GC_MASK(icu(code)) & categories) != 0; }

void check(UErrorCode status) {
  if (U_FAILURE(status)) fail(ErrorCode::internal, std::string("ICU: ") + u_errorName(status));
}

Kind find_kind(char32_t code) {
  if (is_white_space(code)) return Kind::space;
  if (is_letter(code)) return Kind::letter;
  return is_number(code) ? Kind::number : Kind::other;
}

struct Forms {
  Forms() {
    UErrorCode status = U_ZERO_ERROR;
    canonical = unorm2_getNFCInstance(&status);
    compatible = unorm2_getNFKCInstance(&status);
    check(status);
  }
  const UNormalizer2* canonical = nullptr;
  const UNormalizer2* compatible = nullptr;
};

const Forms& forms() {
  static const Forms all;
  return all;
}

std::u32string find_decomposition(char32_t code, bool compatible) {
  std::array<UChar, 64> units;
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* form = compatible ? forms().compatible : forms().canonical;
  const int size = unorm2_getDecomposition(form, icu(code), units.data(), units.size(), &status);
  std::u32string out;
  if (size < 0) return out;
  check(status);
  for (int i = 0; i < size;) {
    UChar32 c;
    U16_NEXT(units.data(), i, size, c);
    out.push_back(static_cast<char32_t>(c));
  }
  return out;
}

// Decompositions by character; they are asked for once a character of the text, and ICU's way through UTF-16 is slow.
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

struct CloseText {
  void operator()(UText* text) const { utext_close(text); }
};
struct CloseBreaks {
  void operator()(UBreakIterator* breaks) const { ubrk_close(breaks); }
};

}  // namespace

bool is_white_space(char32_t code) { return u_isUWhiteSpace(icu(code)); }
bool is_letter(char32_t code) { return has(code, U_GC_L_MASK); }
bool is_number(char32_t code) { return has(code, U_GC_N_MASK); }
bool is_mark(char32_t code) { return has(code, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t code) { return has(code, U_GC_MN_MASK); }

bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !has(code, U_GC_L_MASK | U_GC_N_MASK);
  return has(code, U_GC_P_MASK);
}

bool is_word(char32_t code) {
  return u_hasBinaryProperty(icu(code), UCHAR_ALPHABETIC) || has(code, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(icu(code), UCHAR_JOIN_CONTROL);
}

bool is_control(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return has(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK);
}

bool is_ideograph(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks{{{0x4E00, 0x9FFF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x20000, 0x2A6DF},
                                                                  {0x2A700, 0x2B73F},
                                                                  {0x2B740, 0x2B81F},
                                                                  {0x2B920, 0x2CEAF},
                                                                  {0xF900, 0xFAFF},
                                                                  {0x2F800, 0x2FA1F}}};
  for (const auto& [first, last] : kBlocks)
    if (c >= first && c <= last) return true;
  return false;
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
  return static_cast<char32_t>(u_tolower(icu(code)));
}

std::uint8_t combining_class(char32_t code) { return code < 0x300 ? 0 : u_getCombiningClass(icu(code)); }

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
  const UChar32 found = unorm2_composePair(forms().canonical, icu(first), icu(second));
  return found < 0 ? 0 : static_cast<char32_t>(found);
}

std::vector<std::uint32_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, CloseText> view(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
  const std::unique_ptr<UBreakIterator, CloseBreaks> breaks(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status));
  check(status);
  ubrk_setUText(breaks.get(), view.get(), &status);
  check(status);
  std::vector<std::uint32_t> ends;
  for (int end = ubrk_next(breaks.get()); end != UBRK_DONE; end = ubrk_next(breaks.get()))
    ends.push_back(static_cast<std::uint32_t>(end));
  return ends;
}

}  // namespace fovea::text

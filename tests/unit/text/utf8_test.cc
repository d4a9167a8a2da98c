#include "text/utf8.h"

#include <gtest/gtest.h>

#include "text/aligned.h"
#include "text/byte_level.h"
#include "text/normalizer.h"
#include "text/pattern.h"

namespace fovea::text {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string bytes = to_utf8(code);
    const Character c = decode(bytes, 0);
    ASSERT_TRUE(c.valid && c.code == code && c.size == bytes.size() && utf8_size(code) == bytes.size())
        << static_cast<std::uint32_t>(code);
    for (std::size_t i = 1; i < bytes.size(); ++i)
      ASSERT_FALSE(decode(bytes.substr(0, i), 0).valid) << static_cast<std::uint32_t>(code);
  }
}

TEST(Utf8, InvalidBytesAreOneCharacterEach) {
  for (const char* text :
       {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << text;
    std::size_t count = 0;
    for_characters(text, [&](const Character& c, std::size_t) { count += c.valid ? 100 : 1; });
    EXPECT_EQ(count, std::string_view(text).size());
  }
  EXPECT_TRUE(is_valid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"));
  EXPECT_TRUE(is_valid_utf8(std::string(100, 'x')));
  EXPECT_FALSE(is_valid_utf8(std::string(100, 'x') + '\xFF'));
}

TEST(Utf8, BoundsOfCharacters) {
  const std::string text = "a\xE2\x82\xAC\x82z";
  EXPECT_EQ(character_begin(text, 2), 1u);
  EXPECT_EQ(character_begin(text, 3), 1u);
  EXPECT_EQ(character_begin(text, 4), 4u);  // a stray byte
  EXPECT_EQ(character_end(text, 2), 4u);
  EXPECT_EQ(character_end(text, 4), 4u);
  EXPECT_EQ(character_end(text, 5), 5u);
}

TEST(Utf8, ReplacesAsTheStandardRecommends) {
  EXPECT_EQ(replace_invalid("a\xE2\x82z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid("\xF0\x9F\x98"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(unfinished_bytes("ab\xF0\x9F\x98"), 3u);
  EXPECT_EQ(unfinished_bytes("ab\xC3\xA9"), 0u);
  EXPECT_EQ(unfinished_bytes("ab\xFF"), 0u);
}

std::vector<std::string> cut_gpt2(std::string_view text) {
  std::vector<Range> pieces;
  gpt2_cut(text, {0, static_cast<std::uint32_t>(text.size())}, pieces);
  std::vector<std::string> out;
  for (const Range& piece : pieces) out.emplace_back(text.substr(piece.begin, piece.size()));
  return out;
}

TEST(ByteLevel, CutsAsGpt2) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(cut_gpt2("Hello there's 12 it'll"), (Pieces{"Hello", " there", "'s", " 12", " it", "'ll"}));
  EXPECT_EQ(cut_gpt2("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(cut_gpt2("a \n b\n"), (Pieces{"a", " \n", " b", "\n"}));
  EXPECT_EQ(cut_gpt2("a\nb  "), (Pieces{"a", "\n", "b", "  "}));
  EXPECT_EQ(cut_gpt2("\xFFx\xC3\xA9"), (Pieces{"\xFF", "x\xC3\xA9"}));
  EXPECT_TRUE(cut_gpt2("").empty());
}

TEST(ByteLevel, EveryByteHasACharacter) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(characters_as_bytes(bytes_as_characters(all)), all);
  EXPECT_EQ(characters_as_bytes("\xE2\x82\xAC"), std::nullopt);
  EXPECT_EQ(bytes_as_characters(" a"),
            "\xC4\xA0"
            "a");
}

TEST(ByteLevel, SafePlacesKeepThePieces) {
  const std::string text = "one  two\n three 's 4 five's  six";
  const auto whole = cut_gpt2(text);
  for (std::size_t from = 0; from < text.size(); ++from) {
    const std::size_t place = gpt2_safe_place(text, from);
    auto pieces = cut_gpt2(text.substr(0, place));
    for (const std::string& piece : cut_gpt2(text.substr(place))) pieces.push_back(piece);
    EXPECT_EQ(pieces, whole) << place;
  }
}

TEST(AlignedText, FollowsChanges) {
  const std::string text = "xA\xCC\x81 b";  // A with a combining accent
  AlignedText aligned(text, {1, 6}, true);
  normalize(aligned, {.compatible = false, .composed = true});
  EXPECT_EQ(aligned.text(), "\xC3\x81 b");
  EXPECT_EQ(aligned.original({0, 2}), (Range{1, 2}));  // the letter: the accent went into it
  EXPECT_EQ(aligned.original({2, 3}), (Range{4, 5}));
  aligned.prepend("__");
  EXPECT_EQ(aligned.original({0, 1}), (Range{1, 2}));
  aligned.filter([](char32_t c) { return c != ' '; });
  EXPECT_EQ(aligned.text(),
            "__\xC3\x81"
            "b");
  EXPECT_EQ(aligned.original({4, 5}), (Range{5, 6}));
}

TEST(AlignedText, KeepsTheOriginalOfInvalidBytes) {
  const std::string text = "a\xFF\xEF\xBF\xBD";
  const AlignedText repaired(text, {0, 5}, true);
  EXPECT_EQ(repaired.text(), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(repaired.original({1, 4}), (Range{1, 2}));
  EXPECT_EQ(repaired.invalid_byte(1), "\xFF");
  EXPECT_EQ(repaired.invalid_byte(4), "");
  EXPECT_FALSE(AlignedText(text, {0, 5}, false).repaired());
}

TEST(Cut, EveryBehaviour) {
  const std::string text = "the-final--countdown";
  std::vector<Range> found;
  Pattern::plain("-").find(text, {0, 20}, found);
  const auto cut_with = [&](Behaviour behaviour) {
    std::vector<Range> pieces;
    cut({0, 20}, found, {behaviour}, pieces);
    std::string out;
    for (const Range& piece : pieces) out += (out.empty() ? "" : "|") + text.substr(piece.begin, piece.size());
    return out;
  };
  EXPECT_EQ(cut_with(Behaviour::removed), "the|final|countdown");
  EXPECT_EQ(cut_with(Behaviour::isolated), "the|-|final|-|-|countdown");
  EXPECT_EQ(cut_with(Behaviour::previous), "the-|final-|-|countdown");
  EXPECT_EQ(cut_with(Behaviour::next), "the|-final|-|-countdown");
  EXPECT_EQ(cut_with(Behaviour::contiguous), "the|-|final|--|countdown");
}

}  // namespace
}  // namespace fovea::text

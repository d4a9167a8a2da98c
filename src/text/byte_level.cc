#include "text/byte_level.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t kAlphabetEnd = 0x144;  // the last character that stands for another byte is U+0143

constexpr auto kCharacters = [] {
  std::array<char16_t, 256> all{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    all[byte] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  return all;
}();

constexpr auto kBytes = [] {
  std::array<std::int16_t, kAlphabetEnd> all{};
  for (auto& byte : all) byte = -1;
  for (std::int16_t byte = 0; byte < 256; ++byte) all[kCharacters[static_cast<std::size_t>(byte)]] = byte;
  return all;
}();

// Walks over text[at, end).
class Walker {
 public:
  Walker(std::string_view text, Range within) : text_(text.substr(0, within.end)), at_(within.begin) {}

  bool done() const { return at_ >= text_.size(); }
  std::uint32_t at() const { return static_cast<std::uint32_t>(at_); }
  char byte(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Kind kind(std::size_t ahead = 0) {
    const auto first = static_cast<unsigned char>(text_[at_ + ahead]);
    if (first < 0x80) {
      size_ = 1;
      return ascii_[first];
    }
    const Character c = decode(text_, at_ + ahead);
    size_ = c.size;
    return kind_of(c.code);
  }
  void pass(std::size_t bytes) { at_ += bytes; }
  void pass_run(Kind kind_wanted) {
    while (!done() && kind() == kind_wanted) at_ += size_;
  }

  // White space up to a sign, less its last character when that one goes with the sign.
  void pass_space() {
    std::size_t last = at_;
    const std::size_t begin = at_;
    while (!done() && kind() == Kind::space) {
      last = at_;
      at_ += size_;
    }
    if (!done() && last > begin) at_ = last;
  }

  // 's 't 'm 'd 're 've 'll
  std::size_t contraction() const {
    const char a = byte(1), b = byte(2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
  }

 private:
  std::string_view text_;
  std::size_t at_;
  std::uint32_t size_ = 1;  // of the character kind() looked at
  const Kind* ascii_ = ascii_kinds();
};

}  // namespace

char32_t byte_character(unsigned char byte) { return kCharacters[byte]; }

std::optional<unsigned char> character_byte(char32_t code) {
  if (code >= kAlphabetEnd || kBytes[code] < 0) return std::nullopt;
  return static_cast<unsigned char>(kBytes[code]);
}

std::string bytes_as_characters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, byte_character(static_cast<unsigned char>(byte)));
  return out;
}

std::optional<std::string> characters_as_bytes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = decode(text, at);
    const std::optional<unsigned char> byte = character_byte(c.code);
    if (!c.valid || !byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += c.size;
  }
  return out;
}

void gpt2_cut(std::string_view text, Range within, std::vector<Range>& pieces) {
  Walker walk(text, within);
  while (!walk.done()) {
    const std::uint32_t begin = walk.at();
    const std::size_t contraction = walk.byte() == '\'' ? walk.contraction() : 0;
    Kind kind = walk.kind();
    if (contraction > 0) {
      walk.pass(contraction);
    } else if (kind != Kind::space) {
      walk.pass_run(kind);
    } else if (walk.byte() == ' ' && begin + 1 < within.end && (kind = walk.kind(1)) != Kind::space) {
      walk.pass(1);
      walk.pass_run(kind);
    } else {
      walk.pass_space();
    }
    pieces.push_back({begin, walk.at()});
  }
}

std::size_t gpt2_safe_place(std::string_view text, std::size_t from) {
  const auto is = [&](std::size_t at, Kind kind) {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 && ascii_kinds()[byte] == kind;
  };
  for (std::size_t at = from + 1; at < text.size(); ++at)
    if (text[at] == ' ' && (is(at - 1, Kind::letter) || is(at - 1, Kind::number))) return at;
  return text.size();
}

}  // namespace fovea::text

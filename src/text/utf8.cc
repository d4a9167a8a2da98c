#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace fovea::text {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }
bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character a first byte announces; 0: no first byte.
std::uint32_t announced(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// Whether `second` may follow `first`: no overlong forms, no surrogates, nothing above U+10FFFF.
bool may_follow(unsigned char first, unsigned char second) {
  if (!is_continuation(second)) return false;
  switch (first) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second < 0xA0;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second < 0x90;
    default: return true;
  }
}

// Bytes at `at` that a valid character could begin with, up to the whole of it.
std::uint32_t good_bytes(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  const std::uint32_t size = announced(first);
  std::uint32_t good = size == 0 ? 0 : 1;
  while (good > 0 && good < size && at + good < text.size()) {
    const unsigned char next = byte_at(text, at + good);
    if (good == 1 ? !may_follow(first, next) : !is_continuation(next)) break;
    ++good;
  }
  return good;
}

}  // namespace

Character decode_slow(std::string_view text, std::size_t at) {
  const std::uint32_t size = announced(byte_at(text, at));
  if (size == 0 || good_bytes(text, at) != size) return {kReplacement, 1, false};
  constexpr unsigned char kBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code = byte_at(text, at) & kBits[size];
  for (std::uint32_t i = 1; i < size; ++i) code = code << 6 | (byte_at(text, at + i) & 0x3F);
  return {code, size, true};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string to_utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

std::uint32_t utf8_size(char32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

// Ored by eight bytes: a text of one language is mostly ASCII, and this is the first thing done with it.
bool is_ascii(std::string_view text) {
  std::uint64_t high = 0, word = 0;
  std::size_t at = 0;
  for (; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    high |= word;
  }
  for (; at < text.size(); ++at) high |= byte_at(text, at);
  return (high & 0x8080808080808080u) == 0;
}

bool is_valid_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = decode(text, at);
    if (!c.valid) return false;
    at += c.size;
  }
  return true;
}

std::size_t character_begin(std::string_view text, std::size_t at) {
  if (at >= text.size() || !is_continuation(byte_at(text, at))) return at;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, at); ++back) {
    if (is_continuation(byte_at(text, at - back))) continue;
    return decode(text, at - back).size > back ? at - back : at;
  }
  return at;
}

std::size_t character_end(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size() || !is_continuation(byte_at(text, at))) return at;
  const std::size_t begin = character_begin(text, at - 1);
  return std::max(at, begin + decode(text, begin).size);
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character c = decode(text, at);
    if (c.valid) {
      out.append(text.substr(at, c.size));
      at += c.size;
    } else {
      out.append(kReplacementUtf8);
      at += std::max<std::uint32_t>(1, good_bytes(text, at));
    }
  }
  return out;
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const unsigned char byte = byte_at(text, text.size() - back);
    if (is_continuation(byte)) continue;
    return announced(byte) > back && good_bytes(text, text.size() - back) == back ? back : 0;
  }
  return 0;
}

}  // namespace fovea::text

#include <algorithm>
#include <cstring>
#include <optional>

#include "fovea/error.h"
#include "text/normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string from_base64(const std::string& text, const std::string& where) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const int value = base64_value(c);
    if (value < 0) fail(ErrorCode::bad_input, "not base64", where);
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 0xFF));
  }
  return out;
}

// A double-array trie from strings to places in a block of replacements, each ended by a zero byte. A unit of the
// array holds, from the low bits: the label of the edge that leads to it (8), whether a string ends there (bit 8), and
// how far its children are (the rest); a value has the top bit set.
class Charsmap final : public Normalizer {
 public:
  Charsmap(const std::string& base64, const std::string& where) {
    const std::string bytes = from_base64(base64, where);
    std::uint32_t size = 0;
    if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
    if (size == 0 || size % 4 != 0 || size > bytes.size() - sizeof(size))
      fail(ErrorCode::bad_input, "the table of characters is damaged", where);
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
    replacements_ = bytes.substr(sizeof(size) + size);
    if (!is_valid_utf8(replacements_)) fail(ErrorCode::bad_input, "the table of characters is not UTF-8", where);
  }

  // As sentencepiece's users know it: short clusters are looked up whole, else character by character, and the first
  // (shortest) entry counts.
  void apply(AlignedText& text) const override {
    const std::string_view all = text.text();
    Changes changes;
    std::uint32_t begin = 0;
    for (const std::uint32_t end : grapheme_ends(all)) {
      const std::string_view cluster = all.substr(begin, end - begin);
      begin = end;
      text.check_growth(changes.list.size());
      if (cluster.size() < 6 && add(cluster, changes)) continue;
      for_characters(cluster, [&](const Character& c, std::size_t at) {
        if (!add(cluster.substr(at, c.size), changes)) changes.list.push_back({c.code, 0});
      });
    }
    if (changes.any) text.transform(changes.list, changes.dropped);
  }

 private:
  struct Changes {
    std::vector<Change> list;
    std::size_t dropped = 0;  // at the beginning
    bool any = false;
  };

  // Character by character as far as both go; then the rest is new, or the rest goes.
  bool add(std::string_view chunk, Changes& changes) const {
    const std::optional<std::string_view> found = find(chunk);
    if (!found) return false;
    changes.any = true;
    int left = 0;  // characters of the chunk
    for_characters(chunk, [&](const Character&, std::size_t) { ++left; });
    for_characters(*found, [&](const Character& c, std::size_t) {
      changes.list.push_back({c.code, left > 0 ? 0 : 1});
      left -= left > 0 ? 1 : 0;
    });
    if (changes.list.empty())
      changes.dropped += static_cast<std::size_t>(left);
    else
      changes.list.back().kind -= left;
    return true;
  }

  std::optional<std::string_view> find(std::string_view chunk) const {
    std::uint64_t node = offset(units_[0]);
    for (const char byte : chunk) {
      const auto label = static_cast<unsigned char>(byte);
      node ^= label;
      if (label == 0 || node >= units_.size() || (units_[node] & 0x800000FFu) != label) return std::nullopt;
      const std::uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const std::size_t at = units_[node] & 0x7FFFFFFFu;
      if (at > replacements_.size()) return std::nullopt;
      return std::string_view(replacements_)
          .substr(at, std::min(replacements_.find('\0', at), replacements_.size()) - at);
    }
    return std::nullopt;
  }

  static std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> make_charsmap(const std::string& base64, const std::string& where) {
  return std::make_unique<Charsmap>(base64, where);
}

}  // namespace fovea::text

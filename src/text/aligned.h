#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// A range of bytes.
struct Range {
  std::uint32_t begin = 0, end = 0;

  std::uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

// Bytes that a text may have after it was changed.
constexpr std::size_t most_after(std::size_t bytes) { return (std::size_t{1} << 20) + 100 * bytes; }

// A character that a change of the text puts there. 0: in the place of the next one; -n: the same, and the n after it
// go; above 0: a new one, which belongs to the one before.
struct Change {
  char32_t code;
  int kind = 0;
};

// A text that knows, for each of its bytes, which bytes of the original it came from. Without changes it is a view of
// the original and costs nothing.
class AlignedText {
 public:
  // The bytes `range` of the original. With `repair` invalid bytes become U+FFFD, as everything that reads characters
  // needs; without, they stay.
  AlignedText(std::string_view original, Range range, bool repair);

  std::string_view text() const { return changed_ ? std::string_view(owned_) : view_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text().size()); }

  // The original bytes of a part that is not empty, widened to whole characters.
  Range original(Range part) const;

  // Whether invalid bytes were replaced, and the byte that a character stands for: none unless it is a replacement.
  bool repaired() const { return repaired_; }
  std::string_view invalid_byte(std::uint32_t at) const;

  // The whole text anew: `changes` in order, after the first `dropped` characters, which go.
  void transform(std::span<const Change> changes, std::size_t dropped);

  void filter(const std::function<bool(char32_t)>& keep);
  void map(const std::function<char32_t(char32_t)>& change);
  void prepend(std::string_view text);
  void strip(bool left, bool right);

  // Refuses a change that makes the text far longer than it was: a tokeniser's file may double it over and over.
  void check_growth(std::size_t bytes) const;

  // Writes `content` in the place of each of the parts, which are in order; it belongs to a part's last character.
  void replace(std::span<const Range> parts, std::string_view content);

  // Builds the text out of pieces of this one: copy() and insert() in order, then commit().
  class Rebuild {
   public:
    explicit Rebuild(AlignedText& target) : target_(target) { text_.reserve(target.size() + 16); }

    std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
    void copy(Range part);
    void insert(std::string_view text, Range original);  // each byte stands for the same original bytes
    void commit();

   private:
    AlignedText& target_;
    std::string text_;
    std::vector<Range> spans_;
  };

 private:
  Range span_at(std::uint32_t at) const;  // of one byte, widened to its character

  std::string_view view_;
  std::uint32_t base_ = 0;
  bool changed_ = false, repaired_ = false;
  std::string owned_;
  std::vector<Range> spans_;  // for each byte of owned_
};

}  // namespace fovea::text

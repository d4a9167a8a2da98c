#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/pattern.h"

namespace fovea {

// One kind of pattern; see Pattern for what the functions mean.
class Pattern::Kind {
 public:
  explicit Kind(std::string text) : text_(std::move(text)) {}
  virtual ~Kind() = default;

  virtual bool keep(std::int64_t query, std::int64_t key) const = 0;
  virtual Cover cover(const Rect& rect) const = 0;
  virtual Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const = 0;
  // `bits` arrives cleared. Asks for every pair unless a kind knows better.
  virtual void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const;
  // The pattern among the tokens first, first + step, ..., numbered from 0, where that has a form of its own; else
  // null.
  virtual std::shared_ptr<const Kind> every(std::int64_t, std::int64_t) const { return nullptr; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

namespace tile {

using PatternKind = Pattern::Kind;
using KindPtr = std::shared_ptr<const PatternKind>;

inline constexpr std::int64_t kOpen = std::int64_t{1} << 60;  // beyond every position, and sums stay in range

// Rounds down: queries before the first key have negative positions.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The first x with first + x * step >= position.
inline std::int64_t first_at(std::int64_t position, std::int64_t step, std::int64_t first) {
  return -floor_div(first - position, step);
}

// Sets bits [begin, end) of one key's words.
inline void set_bits(std::uint64_t* words, std::int64_t begin, std::int64_t end) {
  while (begin < end) {
    const std::int64_t bit = begin % 64, count = std::min<std::int64_t>(64 - bit, end - begin);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    words[begin / 64] |= ones << bit;
    begin += count;
  }
}

// A pattern in which the queries that keep a key are one interval: masks are then filled by intervals.
class IntervalPattern : public PatternKind {
 public:
  using PatternKind::Kind;
  virtual Pattern::Range queries_of(std::int64_t key) const = 0;

  void mask(const Pattern::Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const final {
    for (std::int64_t key = rect.key_begin; key < rect.key_end; ++key) {
      const Pattern::Range kept = queries_of(key);
      set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words],
               std::max(kept.begin, rect.query_begin) - rect.query_begin,
               std::min(kept.end, rect.query_end) - rect.query_begin);
    }
  }
};

// The kinds of sparse patterns (sparse_patterns.cc); arguments are checked by the caller.
KindPtr box_kind(const Pattern::Rect& rect);
KindPtr comb_kind(std::int64_t period, std::int64_t begin, std::int64_t end);
KindPtr distances_kind(std::vector<std::int64_t> distances);
KindPtr blocks_kind(std::int64_t width, std::vector<std::vector<std::int64_t>> rows);

}  // namespace tile
}  // namespace fovea

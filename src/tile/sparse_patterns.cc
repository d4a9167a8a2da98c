#include <algorithm>
#include <vector>

#include "tile/pattern_kind.h"

namespace fovea::tile {
namespace {

using Cover = Pattern::Cover;
using Range = Pattern::Range;
using Rect = Pattern::Rect;

// "1,2,5"
std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t x : numbers) text += (text.empty() ? "" : ",") + std::to_string(x);
  return text;
}

void sort_unique(std::vector<std::int64_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// How many of the sorted numbers lie in [begin, end).
std::int64_t count_in(const std::vector<std::int64_t>& numbers, std::int64_t begin, std::int64_t end) {
  return std::lower_bound(numbers.begin(), numbers.end(), end) -
         std::lower_bound(numbers.begin(), numbers.end(), begin);
}

// A range is kept whole, not at all or in part, when so many of its members are.
Cover cover_of(std::int64_t kept, std::int64_t all) {
  return kept == 0 ? Cover::none : kept == all ? Cover::whole : Cover::part;
}

class Box final : public IntervalPattern {
 public:
  explicit Box(const Rect& box)
      : IntervalPattern("box(" + list_text({box.query_begin, box.query_end, box.key_begin, box.key_end}) + ")"),
        box_(box) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    return query >= box_.query_begin && query < box_.query_end && key >= box_.key_begin && key < box_.key_end;
  }
  Cover cover(const Rect& rect) const override {
    const std::int64_t queries = shared(rect.query_begin, rect.query_end, box_.query_begin, box_.query_end);
    const std::int64_t keys = shared(rect.key_begin, rect.key_end, box_.key_begin, box_.key_end);
    if (queries == 0 || keys == 0) return Cover::none;
    const bool whole = queries == rect.query_end - rect.query_begin && keys == rect.key_end - rect.key_begin;
    return whole ? Cover::whole : Cover::part;
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    if (shared(query_begin, query_end, box_.query_begin, box_.query_end) == 0) return {0, 0};
    return {std::clamp<std::int64_t>(box_.key_begin, 0, n_k), std::clamp<std::int64_t>(box_.key_end, 0, n_k)};
  }
  Range queries_of(std::int64_t key) const override {
    if (key < box_.key_begin || key >= box_.key_end) return {0, 0};
    return {box_.query_begin, box_.query_end};
  }
  KindPtr every(std::int64_t step, std::int64_t first) const override {
    const auto at = [&](std::int64_t position) { return first_at(position, step, first); };
    return std::make_shared<Box>(Rect{at(box_.query_begin), at(box_.query_end), at(box_.key_begin), at(box_.key_end)});
  }

 private:
  static std::int64_t shared(std::int64_t a0, std::int64_t a1, std::int64_t b0, std::int64_t b1) {
    return std::max<std::int64_t>(0, std::min(a1, b1) - std::max(a0, b0));
  }
  Rect box_;
};

class Comb final : public IntervalPattern {
 public:
  Comb(std::int64_t period, std::int64_t begin, std::int64_t end)
      : IntervalPattern("comb(" + list_text({period, begin, end}) + ")"), period_(period), begin_(begin), end_(end) {}

  bool keep(std::int64_t, std::int64_t key) const override { return key % period_ >= begin_ && key % period_ < end_; }
  Cover cover(const Rect& rect) const override {
    return cover_of(kept_before(rect.key_end) - kept_before(rect.key_begin), rect.key_end - rect.key_begin);
  }
  Range keys(std::int64_t, std::int64_t, std::int64_t n_k) const override { return {0, n_k}; }
  Range queries_of(std::int64_t key) const override { return keep(0, key) ? Range{-kOpen, kOpen} : Range{0, 0}; }

 private:
  std::int64_t kept_before(std::int64_t key) const {
    return key / period_ * (end_ - begin_) + std::clamp(key % period_ - begin_, std::int64_t{0}, end_ - begin_);
  }
  std::int64_t period_, begin_, end_;
};

class Distances final : public PatternKind {
 public:
  explicit Distances(std::vector<std::int64_t> sorted)
      : PatternKind("distances(" + list_text(sorted) + ")"), distances_(std::move(sorted)) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    return std::binary_search(distances_.begin(), distances_.end(), query - key);
  }
  Cover cover(const Rect& rect) const override {
    const Range all = range_of(rect);
    return cover_of(count_in(distances_, all.begin, all.end), all.end - all.begin);
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    if (distances_.empty()) return {0, 0};
    return {std::clamp<std::int64_t>(query_begin - distances_.back(), 0, n_k),
            std::clamp<std::int64_t>(query_end - distances_.front(), 0, n_k)};
  }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    const Range all = range_of(rect);
    auto distance = std::lower_bound(distances_.begin(), distances_.end(), all.begin);
    for (; distance != distances_.end() && *distance < all.end; ++distance) {
      const std::int64_t first = std::max(rect.key_begin, rect.query_begin - *distance);
      const std::int64_t end = std::min(rect.key_end, rect.query_end - *distance);
      for (std::int64_t key = first; key < end; ++key) {
        const std::int64_t query = key + *distance - rect.query_begin;
        set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words], query, query + 1);
      }
    }
  }

 private:
  // Distances that occur in a rectangle.
  static Range range_of(const Rect& rect) {
    return {rect.query_begin - rect.key_end + 1, rect.query_end - rect.key_begin};
  }
  std::vector<std::int64_t> distances_;
};

class Blocks final : public PatternKind {
 public:
  Blocks(std::int64_t width, std::vector<std::vector<std::int64_t>> sorted)
      : PatternKind(blocks_text(width, sorted)), width_(width), rows_(std::move(sorted)) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    const std::vector<std::int64_t>& row = row_at(floor_div(query, width_));
    return std::binary_search(row.begin(), row.end(), key / width_);
  }
  Cover cover(const Rect& rect) const override {
    const Rect blocks = blocks_of(rect);
    std::int64_t kept = 0;
    for (std::int64_t i = blocks.query_begin; i < blocks.query_end; ++i)
      kept += count_in(row_at(i), blocks.key_begin, blocks.key_end);
    return cover_of(kept, (blocks.query_end - blocks.query_begin) * (blocks.key_end - blocks.key_begin));
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    const Rect blocks = blocks_of({query_begin, query_end, 0, 1});
    Range range{n_k, 0};
    for (std::int64_t i = blocks.query_begin; i < blocks.query_end; ++i) {
      if (row_at(i).empty()) continue;
      range.begin = std::min(range.begin, row_at(i).front() * width_);
      range.end = std::max(range.end, (row_at(i).back() + 1) * width_);
    }
    return {range.begin, std::min(range.end, n_k)};
  }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    const Rect blocks = blocks_of(rect);
    for (std::int64_t i = blocks.query_begin; i < blocks.query_end; ++i) {
      const std::int64_t begin = std::max(i * width_, rect.query_begin) - rect.query_begin;
      const std::int64_t end = std::min((i + 1) * width_, rect.query_end) - rect.query_begin;
      for (const std::int64_t block : row_at(i))
        for (std::int64_t key = std::max(block * width_, rect.key_begin);
             key < std::min((block + 1) * width_, rect.key_end); ++key)
          set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words], begin, end);
    }
  }

 private:
  static std::string blocks_text(std::int64_t width, const std::vector<std::vector<std::int64_t>>& rows) {
    std::string text = "blocks(" + std::to_string(width);
    for (const auto& row : rows) text += ";" + list_text(row);
    return text + ")";
  }
  // The blocks a rectangle meets.
  Rect blocks_of(const Rect& rect) const {
    return {floor_div(rect.query_begin, width_), floor_div(rect.query_end - 1, width_) + 1, rect.key_begin / width_,
            (rect.key_end - 1) / width_ + 1};
  }
  const std::vector<std::int64_t>& row_at(std::int64_t block) const {
    static const std::vector<std::int64_t> kNone;
    return block >= 0 && block < std::ssize(rows_) ? rows_[static_cast<std::size_t>(block)] : kNone;
  }
  std::int64_t width_;
  std::vector<std::vector<std::int64_t>> rows_;
};

}  // namespace

KindPtr box_kind(const Rect& rect) { return std::make_shared<Box>(rect); }

KindPtr comb_kind(std::int64_t period, std::int64_t begin, std::int64_t end) {
  return std::make_shared<Comb>(period, begin, end);
}

KindPtr distances_kind(std::vector<std::int64_t> distances) {
  sort_unique(distances);
  return std::make_shared<Distances>(std::move(distances));
}

KindPtr blocks_kind(std::int64_t width, std::vector<std::vector<std::int64_t>> rows) {
  for (std::vector<std::int64_t>& row : rows) sort_unique(row);
  return std::make_shared<Blocks>(width, std::move(rows));
}

}  // namespace fovea::tile

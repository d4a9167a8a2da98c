#include "fovea/pattern.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "fovea/error.h"
#include "tile/pattern_kind.h"

namespace fovea {

using Cover = Pattern::Cover;
using Rect = Pattern::Rect;
using Range = Pattern::Range;

void Pattern::Kind::mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const {
  for (std::int64_t key = rect.key_begin; key < rect.key_end; ++key)
    for (std::int64_t query = rect.query_begin; query < rect.query_end; ++query)
      if (keep(query, key)) {
        const std::int64_t i = query - rect.query_begin;
        tile::set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words], i, i + 1);
      }
}

namespace {

using tile::floor_div;
using tile::IntervalPattern;
using tile::KindPtr;
using tile::kOpen;
using tile::PatternKind;

// query - left <= key <= query + right. Full and causal are windows too, open on one side or both.
class WindowPattern final : public IntervalPattern {
 public:
  WindowPattern(std::string text, std::int64_t left, std::int64_t right)
      : IntervalPattern(std::move(text)), left_(left), right_(right) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    return key - query >= -left_ && key - query <= right_;
  }
  Cover cover(const Rect& rect) const override {
    const std::int64_t least = rect.key_begin - (rect.query_end - 1), most = rect.key_end - 1 - rect.query_begin;
    if (most < -left_ || least > right_) return Cover::none;
    return least >= -left_ && most <= right_ ? Cover::whole : Cover::part;
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    return {std::clamp<std::int64_t>(query_begin - left_, 0, n_k),
            std::clamp<std::int64_t>(query_end + right_, 0, n_k)};
  }
  Range queries_of(std::int64_t key) const override { return {key - right_, key + left_ + 1}; }
  KindPtr every(std::int64_t step, std::int64_t) const override { return of(steps(left_, step), steps(right_, step)); }

  static KindPtr of(std::int64_t left, std::int64_t right) {
    const auto side = [](std::int64_t width) { return width == kOpen ? std::string("-1") : std::to_string(width); };
    return std::make_shared<WindowPattern>("window(" + side(left) + ", " + side(right) + ")", left, right);
  }

 private:
  static std::int64_t steps(std::int64_t side, std::int64_t step) { return side == kOpen ? side : side / step; }

  std::int64_t left_, right_;
};

class BlockDiagonal final : public IntervalPattern {
 public:
  explicit BlockDiagonal(std::int64_t width)
      : IntervalPattern("block_diagonal(" + std::to_string(width) + ")"), width_(width) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return block(query) == block(key); }
  Cover cover(const Rect& rect) const override {
    const std::int64_t q0 = block(rect.query_begin), q1 = block(rect.query_end - 1);
    const std::int64_t k0 = block(rect.key_begin), k1 = block(rect.key_end - 1);
    if (k1 < q0 || k0 > q1) return Cover::none;
    return q0 == q1 && k0 == k1 ? Cover::whole : Cover::part;
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    return {std::clamp<std::int64_t>(block(query_begin) * width_, 0, n_k),
            std::clamp<std::int64_t>((block(query_end - 1) + 1) * width_, 0, n_k)};
  }
  Range queries_of(std::int64_t key) const override { return {block(key) * width_, (block(key) + 1) * width_}; }

 private:
  std::int64_t block(std::int64_t position) const { return floor_div(position, width_); }

  std::int64_t width_;
};

class Predicate final : public PatternKind {
 public:
  Predicate(std::string text, std::function<bool(std::int64_t, std::int64_t)> keep)
      : PatternKind(std::move(text)), keep_(std::move(keep)) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return keep_(query, key); }
  Cover cover(const Rect&) const override { return Cover::part; }
  Range keys(std::int64_t, std::int64_t, std::int64_t n_k) const override { return {0, n_k}; }

 private:
  std::function<bool(std::int64_t, std::int64_t)> keep_;
};

class Filled final : public PatternKind {
 public:
  Filled(std::string text, Pattern::Fill fill) : PatternKind(std::move(text)), fill_(std::move(fill)) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    std::uint64_t bit = 0;
    fill_({query, query + 1, key, key + 1}, 1, {&bit, 1});
    return bit != 0;
  }
  Cover cover(const Rect&) const override { return Cover::part; }
  Range keys(std::int64_t, std::int64_t, std::int64_t n_k) const override { return {0, n_k}; }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    fill_(rect, words, bits);
  }

 private:
  Pattern::Fill fill_;
};

// The text of a pattern that only its maker can describe: by a key, or another one every time.
std::string text_of(std::string name, const std::string& key) {
  static std::atomic<std::uint64_t> made{0};
  return std::move(name) + (key.empty() ? "#" + std::to_string(made++) : "[" + key + "]");
}

class Shifted final : public PatternKind {
 public:
  Shifted(KindPtr inner, std::int64_t query, std::int64_t key)
      : PatternKind("shifted(" + inner->text() + ", " + std::to_string(query) + ", " + std::to_string(key) + ")"),
        inner_(std::move(inner)),
        query_(query),
        key_(key) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return inner_->keep(query + query_, key + key_); }
  Cover cover(const Rect& rect) const override { return inner_->cover(moved(rect)); }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    const Range kept = inner_->keys(query_begin + query_, query_end + query_, n_k + key_);
    return {std::clamp<std::int64_t>(kept.begin - key_, 0, n_k), std::clamp<std::int64_t>(kept.end - key_, 0, n_k)};
  }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    inner_->mask(moved(rect), words, bits);
  }

 private:
  Rect moved(const Rect& rect) const {
    return {rect.query_begin + query_, rect.query_end + query_, rect.key_begin + key_, rect.key_end + key_};
  }

  KindPtr inner_;
  std::int64_t query_, key_;
};

// A pattern among every step-th token, asked pair by pair.
class Every final : public PatternKind {
 public:
  Every(KindPtr inner, std::int64_t step, std::int64_t first)
      : PatternKind("every(" + inner->text() + ", " + std::to_string(step) + ", " + std::to_string(first) + ")"),
        inner_(std::move(inner)),
        step_(step),
        first_(first) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return inner_->keep(at(query), at(key)); }
  // What holds between the first and the last of them holds for all.
  Cover cover(const Rect& rect) const override {
    return inner_->cover(
        {at(rect.query_begin), at(rect.query_end - 1) + 1, at(rect.key_begin), at(rect.key_end - 1) + 1});
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    const Range kept = inner_->keys(at(query_begin), at(query_end - 1) + 1, n_k == 0 ? 0 : at(n_k - 1) + 1);
    return {std::clamp<std::int64_t>(tile::first_at(kept.begin, step_, first_), 0, n_k),
            std::clamp<std::int64_t>(tile::first_at(kept.end, step_, first_), 0, n_k)};
  }

 private:
  std::int64_t at(std::int64_t i) const { return first_ + i * step_; }

  KindPtr inner_;
  std::int64_t step_, first_;
};

KindPtr every_of(const KindPtr& kind, std::int64_t step, std::int64_t first) {
  KindPtr own = kind->every(step, first);
  return own != nullptr ? own : std::make_shared<Every>(kind, step, first);
}

// All that a pattern does not keep.
class Not final : public PatternKind {
 public:
  explicit Not(KindPtr inner) : PatternKind("~" + inner->text()), inner_(std::move(inner)) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return !inner_->keep(query, key); }
  Cover cover(const Rect& rect) const override {
    const Cover inner = inner_->cover(rect);
    return inner == Cover::part ? inner : inner == Cover::none ? Cover::whole : Cover::none;
  }
  Range keys(std::int64_t, std::int64_t, std::int64_t n_k) const override { return {0, n_k}; }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    std::vector<std::uint64_t> kept(bits.size());
    inner_->mask(rect, words, kept);
    for (std::int64_t key = rect.key_begin; key < rect.key_end; ++key)
      tile::set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words], 0,
                     rect.query_end - rect.query_begin);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] &= ~kept[i];
  }
  KindPtr every(std::int64_t step, std::int64_t first) const override {
    return std::make_shared<Not>(every_of(inner_, step, first));
  }

 private:
  KindPtr inner_;
};

// Both (kAnd) or either of two patterns.
template <bool kAnd>
class Pair final : public PatternKind {
 public:
  Pair(KindPtr a, KindPtr b)
      : PatternKind("(" + a->text() + (kAnd ? " & " : " | ") + b->text() + ")"), a_(std::move(a)), b_(std::move(b)) {}

  bool keep(std::int64_t query, std::int64_t key) const override {
    return kAnd ? a_->keep(query, key) && b_->keep(query, key) : a_->keep(query, key) || b_->keep(query, key);
  }
  Cover cover(const Rect& rect) const override {
    const Cover a = a_->cover(rect), b = b_->cover(rect);
    constexpr Cover kAbsorbing = kAnd ? Cover::none : Cover::whole, kNeutral = kAnd ? Cover::whole : Cover::none;
    if (a == kAbsorbing || b == kAbsorbing) return kAbsorbing;
    return a == kNeutral ? b : b == kNeutral ? a : Cover::part;
  }
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const override {
    const Range a = a_->keys(query_begin, query_end, n_k), b = b_->keys(query_begin, query_end, n_k);
    if constexpr (kAnd) return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
    if (a.begin >= a.end) return b;
    if (b.begin >= b.end) return a;
    return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
  }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    a_->mask(rect, words, bits);
    std::vector<std::uint64_t> other(bits.size());
    b_->mask(rect, words, other);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = kAnd ? bits[i] & other[i] : bits[i] | other[i];
  }
  KindPtr every(std::int64_t step, std::int64_t first) const override {
    return std::make_shared<Pair>(every_of(a_, step, first), every_of(b_, step, first));
  }

 private:
  KindPtr a_, b_;
};

KindPtr full_kind() {
  static const KindPtr kind = std::make_shared<WindowPattern>("full", kOpen, kOpen);
  return kind;
}

}  // namespace

Pattern::Pattern() : kind_(full_kind()) {}
Pattern::Pattern(std::shared_ptr<const Kind> kind) : kind_(std::move(kind)) {}

Pattern Pattern::full() { return Pattern(); }

Pattern Pattern::causal() { return Pattern(std::make_shared<WindowPattern>("causal", kOpen, 0)); }

Pattern Pattern::window(std::int64_t left, std::int64_t right) {
  if (left < -1 || right < -1)
    fail(ErrorCode::usage, "window(" + std::to_string(left) + ", " + std::to_string(right) + ")", "pattern",
         "sides are 0 or more, or -1 for an open side");
  const auto side = [](std::int64_t width) { return width == -1 ? kOpen : std::min(width, kOpen); };
  return Pattern(WindowPattern::of(side(left), side(right)));
}

Pattern Pattern::block_diagonal(std::int64_t width) {
  if (width < 1 || width > kOpen)
    fail(ErrorCode::usage, "block_diagonal(" + std::to_string(width) + ")", "pattern", "a width of 1 or more");
  return Pattern(std::make_shared<BlockDiagonal>(width));
}

Pattern Pattern::predicate(std::string name, std::function<bool(std::int64_t query, std::int64_t key)> keep,
                           const std::string& key) {
  if (!keep) fail(ErrorCode::usage, "predicate \"" + name + "\" has no function", "pattern");
  return Pattern(std::make_shared<Predicate>(text_of(std::move(name), key), std::move(keep)));
}

Pattern Pattern::filled(std::string name, Fill fill, const std::string& key) {
  if (!fill) fail(ErrorCode::usage, "pattern \"" + name + "\" has no function", "pattern");
  return Pattern(std::make_shared<Filled>(text_of(std::move(name), key), std::move(fill)));
}

Pattern Pattern::shifted(std::int64_t query, std::int64_t key) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 41;  // beyond every plan
  if (key < 0 || key > kMost || query < -kMost || query > kMost)
    fail(ErrorCode::usage, "a pattern shifted by " + std::to_string(query) + " and " + std::to_string(key), "pattern",
         "a first key of 0 or more");
  return query == 0 && key == 0 ? *this : Pattern(std::make_shared<Shifted>(kind_, query, key));
}

Pattern Pattern::box(const Rect& rect) { return Pattern(tile::box_kind(rect)); }

Pattern Pattern::comb(std::int64_t period, std::int64_t begin, std::int64_t end) {
  if (period < 1 || begin < 0 || begin > end || end > period)
    fail(ErrorCode::usage,
         "comb(" + std::to_string(period) + ", " + std::to_string(begin) + ", " + std::to_string(end) + ")", "pattern",
         "0 <= begin <= end <= period");
  return Pattern(tile::comb_kind(period, begin, end));
}

Pattern Pattern::distances(std::vector<std::int64_t> distances) {
  return Pattern(tile::distances_kind(std::move(distances)));
}

Pattern Pattern::blocks(std::int64_t width, std::vector<std::vector<std::int64_t>> rows) {
  if (width < 1) fail(ErrorCode::usage, "blocks of width " + std::to_string(width), "pattern", "a width of 1 or more");
  return Pattern(tile::blocks_kind(width, std::move(rows)));
}

Pattern Pattern::every(std::int64_t step, std::int64_t first) const {
  if (step < 1) fail(ErrorCode::usage, "every token of step " + std::to_string(step), "pattern", "a step of 1 or more");
  return Pattern(every_of(kind_, step, first));
}

Pattern Pattern::operator~() const { return Pattern(std::make_shared<Not>(kind_)); }
Pattern Pattern::operator&(const Pattern& other) const {
  return Pattern(std::make_shared<Pair<true>>(kind_, other.kind_));
}
Pattern Pattern::operator|(const Pattern& other) const {
  return Pattern(std::make_shared<Pair<false>>(kind_, other.kind_));
}

bool Pattern::keep(std::int64_t query, std::int64_t key) const { return kind_->keep(query, key); }

Cover Pattern::cover(const Rect& rect) const {
  if (rect.query_begin >= rect.query_end || rect.key_begin >= rect.key_end) return Cover::none;
  return kind_->cover(rect);
}

Range Pattern::keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const {
  if (query_begin >= query_end) return {0, 0};
  const Range range = kind_->keys(query_begin, query_end, n_k);
  return range.begin < range.end ? range : Range{0, 0};
}

void Pattern::mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const {
  std::fill(bits.begin(), bits.end(), 0);
  kind_->mask(rect, words, bits);
}

const std::string& Pattern::text() const { return kind_->text(); }

}  // namespace fovea

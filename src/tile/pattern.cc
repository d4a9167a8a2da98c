#include "fovea/pattern.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "fovea/error.h"

namespace fovea {

using Cover = Pattern::Cover;
using Rect = Pattern::Rect;
using Range = Pattern::Range;

class Pattern::Rule {
 public:
  explicit Rule(std::string text) : text_(std::move(text)) {}
  virtual ~Rule() = default;

  virtual bool keep(std::int64_t query, std::int64_t key) const = 0;
  virtual Cover cover(const Rect& rect) const = 0;
  virtual Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const = 0;
  // `bits` arrives cleared.
  virtual void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const = 0;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

namespace {

using Rule = Pattern::Rule;
using RulePtr = std::shared_ptr<const Rule>;

// Sets bits [begin, end) of one key's words.
void set_bits(std::uint64_t* words, std::int64_t begin, std::int64_t end) {
  while (begin < end) {
    const std::int64_t bit = begin % 64, count = std::min<std::int64_t>(64 - bit, end - begin);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    words[begin / 64] |= ones << bit;
    begin += count;
  }
}

// A pattern in which the queries that keep a key are one interval: masks are then filled by intervals.
class IntervalRule : public Rule {
 public:
  using Rule::Rule;
  virtual Range queries_of(std::int64_t key) const = 0;

  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const final {
    for (std::int64_t key = rect.key_begin; key < rect.key_end; ++key) {
      const Range kept = queries_of(key);
      set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words],
               std::max(kept.begin, rect.query_begin) - rect.query_begin,
               std::min(kept.end, rect.query_end) - rect.query_begin);
    }
  }
};

// query - left <= key <= query + right. Full and causal are windows too, open on one side or both.
class Window final : public IntervalRule {
 public:
  Window(std::string text, std::int64_t left, std::int64_t right)
      : IntervalRule(std::move(text)), left_(left), right_(right) {}

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

  static constexpr std::int64_t kOpen = std::int64_t{1} << 60;  // beyond every position, and sums stay in range

 private:
  std::int64_t left_, right_;
};

class BlockDiagonal final : public IntervalRule {
 public:
  explicit BlockDiagonal(std::int64_t width)
      : IntervalRule("block_diagonal(" + std::to_string(width) + ")"), width_(width) {}

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
  // Rounds down: queries before the first key have negative positions.
  std::int64_t block(std::int64_t position) const {
    return position >= 0 ? position / width_ : -((-position + width_ - 1) / width_);
  }
  std::int64_t width_;
};

class Predicate final : public Rule {
 public:
  Predicate(std::string text, std::function<bool(std::int64_t, std::int64_t)> keep)
      : Rule(std::move(text)), keep_(std::move(keep)) {}

  bool keep(std::int64_t query, std::int64_t key) const override { return keep_(query, key); }
  Cover cover(const Rect&) const override { return Cover::part; }
  Range keys(std::int64_t, std::int64_t, std::int64_t n_k) const override { return {0, n_k}; }
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const override {
    for (std::int64_t key = rect.key_begin; key < rect.key_end; ++key)
      for (std::int64_t query = rect.query_begin; query < rect.query_end; ++query)
        if (keep_(query, key)) {
          const std::int64_t i = query - rect.query_begin;
          set_bits(&bits[static_cast<std::size_t>(key - rect.key_begin) * words], i, i + 1);
        }
  }

 private:
  std::function<bool(std::int64_t, std::int64_t)> keep_;
};

// Both (kAnd) or either of two patterns.
template <bool kAnd>
class Pair final : public Rule {
 public:
  Pair(RulePtr a, RulePtr b)
      : Rule("(" + a->text() + (kAnd ? " & " : " | ") + b->text() + ")"), a_(std::move(a)), b_(std::move(b)) {}

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

 private:
  RulePtr a_, b_;
};

RulePtr full_rule() {
  static const RulePtr rule = std::make_shared<Window>("full", Window::kOpen, Window::kOpen);
  return rule;
}

}  // namespace

Pattern::Pattern() : rule_(full_rule()) {}
Pattern::Pattern(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}

Pattern Pattern::full() { return Pattern(); }

Pattern Pattern::causal() { return Pattern(std::make_shared<Window>("causal", Window::kOpen, 0)); }

Pattern Pattern::window(std::int64_t left, std::int64_t right) {
  if (left < -1 || right < -1)
    fail(ErrorCode::usage, "window(" + std::to_string(left) + ", " + std::to_string(right) + ")", "pattern",
         "sides are 0 or more, or -1 for an open side");
  const auto side = [](std::int64_t width) { return width == -1 ? Window::kOpen : std::min(width, Window::kOpen); };
  return Pattern(std::make_shared<Window>("window(" + std::to_string(left) + ", " + std::to_string(right) + ")",
                                          side(left), side(right)));
}

Pattern Pattern::block_diagonal(std::int64_t width) {
  if (width < 1 || width > Window::kOpen)
    fail(ErrorCode::usage, "block_diagonal(" + std::to_string(width) + ")", "pattern", "a width of 1 or more");
  return Pattern(std::make_shared<BlockDiagonal>(width));
}

Pattern Pattern::predicate(std::string name, std::function<bool(std::int64_t query, std::int64_t key)> keep) {
  if (!keep) fail(ErrorCode::usage, "predicate \"" + name + "\" has no function", "pattern");
  static std::atomic<std::uint64_t> made{0};
  return Pattern(std::make_shared<Predicate>(std::move(name) + "#" + std::to_string(made++), std::move(keep)));
}

Pattern Pattern::operator&(const Pattern& other) const {
  return Pattern(std::make_shared<Pair<true>>(rule_, other.rule_));
}
Pattern Pattern::operator|(const Pattern& other) const {
  return Pattern(std::make_shared<Pair<false>>(rule_, other.rule_));
}

bool Pattern::keep(std::int64_t query, std::int64_t key) const { return rule_->keep(query, key); }

Cover Pattern::cover(const Rect& rect) const {
  if (rect.query_begin >= rect.query_end || rect.key_begin >= rect.key_end) return Cover::none;
  return rule_->cover(rect);
}

Range Pattern::keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const {
  if (query_begin >= query_end) return {0, 0};
  const Range range = rule_->keys(query_begin, query_end, n_k);
  return range.begin < range.end ? range : Range{0, 0};
}

void Pattern::mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const {
  std::fill(bits.begin(), bits.end(), 0);
  rule_->mask(rect, words, bits);
}

const std::string& Pattern::text() const { return rule_->text(); }

}  // namespace fovea

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fovea/export.h"

namespace fovea {

// Which (query, key) pairs attend, as data. Positions are absolute: query row i of n_q sits at i + n_k - n_q
// (bottom-right), key j at j. Compiled to block plans once per (pattern, n_q, n_k) and run by kernels that know no pattern.
class FOVEA_EXPORT Pattern {
 public:
  enum class Cover : std::uint8_t { none, part, whole };
  // Half-open rectangle of positions.
  struct Rect {
    std::int64_t query_begin, query_end, key_begin, key_end;
  };
  struct Range {
    std::int64_t begin, end;
  };
  class Shape;  // the implementation of one kind of pattern

  Pattern();  // full
  static Pattern full();
  static Pattern causal();                                              // key <= query
  static Pattern window(std::int64_t left, std::int64_t right);         // query - left <= key <= query + right; -1: open
  static Pattern block_diagonal(std::int64_t width);                    // query / width == key / width
  static Pattern predicate(std::string name, std::function<bool(std::int64_t query, std::int64_t key)> keep);

  Pattern operator&(const Pattern& other) const;
  Pattern operator|(const Pattern& other) const;

  bool keep(std::int64_t query, std::int64_t key) const;
  Cover cover(const Rect& rect) const;                        // "part" is always a correct answer, only slower
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const;  // no key outside is kept
  // Equal texts mean equal patterns, except predicates, which get a unique one: plans are cached by it.
  const std::string& text() const;

 private:
  explicit Pattern(std::shared_ptr<const Shape> shape);
  std::shared_ptr<const Shape> shape_;
};

}  // namespace fovea

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/export.h"

namespace fovea {

// Which (query, key) pairs attend, as data. Positions are absolute: query row i of n_q sits at i + n_k - n_q
// (bottom-right), key j at j. Compiled to block plans once per (pattern, n_q, n_k) and run by kernels that know no
// pattern. Cheap to copy.
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
  class Kind;  // the implementation of one kind of pattern

  Pattern();  // full
  static Pattern full();
  static Pattern causal();                                       // key <= query
  static Pattern window(std::int64_t left, std::int64_t right);  // query - left <= key <= query + right; -1: open
  static Pattern block_diagonal(std::int64_t width);             // query / width == key / width
  static Pattern box(const Rect& rect);                          // these queries and these keys
  // begin <= key % period < end, whatever the query.
  static Pattern comb(std::int64_t period, std::int64_t begin, std::int64_t end);
  static Pattern distances(std::vector<std::int64_t> distances);  // query - key is one of these
  // key / width is one of rows[query / width]; queries beyond the rows keep nothing.
  static Pattern blocks(std::int64_t width, std::vector<std::vector<std::int64_t>> rows);
  // Any other. `keep` is called while a plan is compiled, n_q * n_k times at most, possibly from several threads. What
  // has a key is compiled once: patterns of equal names and keys keep the same pairs. Without one each is of its own.
  static Pattern predicate(std::string name, std::function<bool(std::int64_t query, std::int64_t key)> keep,
                           const std::string& key = {});
  // The same for a rectangle at a time, as mask() has it; `bits` arrives cleared. Never asked about a pair that is not
  // there.
  using Fill = std::function<void(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits)>;
  static Pattern filled(std::string name, Fill fill, const std::string& key = {});

  // The pattern seen from a part of the rows: its positions 0 are `query` and `key` here.
  Pattern shifted(std::int64_t query, std::int64_t key) const;
  // The pattern among the tokens first, first + step, ... alone, numbered from 0.
  Pattern every(std::int64_t step, std::int64_t first) const;
  Pattern operator~() const;  // all other pairs
  Pattern operator&(const Pattern& other) const;
  Pattern operator|(const Pattern& other) const;

  bool keep(std::int64_t query, std::int64_t key) const;
  Cover cover(const Rect& rect) const;  // "part" is always a correct answer, only slower
  // No key outside is kept by any of these queries.
  Range keys(std::int64_t query_begin, std::int64_t query_end, std::int64_t n_k) const;
  // The kept pairs as bits, `words` 64-bit words per key: bit i of key j's words is query rect.query_begin + i.
  // bits.size() is at least words * keys; what lies outside the rectangle is cleared.
  void mask(const Rect& rect, std::size_t words, std::span<std::uint64_t> bits) const;
  // Equal texts mean equal patterns: plans are found by it.
  const std::string& text() const;

 private:
  explicit Pattern(std::shared_ptr<const Kind> kind);
  std::shared_ptr<const Kind> kind_;
};

}  // namespace fovea

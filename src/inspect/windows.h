#pragma once

#include <cstdint>

#include "policy/hd.h"

namespace fovea::inspection {

// The keys nearest to key c: as many as are asked for, left and right in turn, and on where one side has ended.
struct KeyWindow {
  std::int64_t begin, end;
};
FOVEA_HD inline KeyWindow window_of(std::int64_t c, std::int64_t keys, std::int64_t n) {
  std::int64_t begin = c - keys / 2, end = c + (keys - 1) / 2 + 1;
  if (begin < 0) end -= begin, begin = 0;
  if (end > n) begin -= end - n, end = n;
  return {begin < 0 ? 0 : begin, end};
}

// Where a query is among the keys: on the last one with the last query; across two sequences, where it would be if both
// went at the same pace.
FOVEA_HD inline std::int64_t place_among_keys(std::int64_t row, std::int64_t n_q, std::int64_t n_k, bool causal) {
  if (n_q == n_k) return row;
  if (!causal) return row % n_k;
  const std::int64_t at = row + n_k - n_q;
  return at < 0 ? 0 : at < n_k ? at : n_k - 1;
}

}  // namespace fovea::inspection

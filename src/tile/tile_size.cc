#include <algorithm>

#include "tile/plan.h"

namespace fovea::tile {
namespace {

constexpr std::int32_t kLanes = 16;   // query tiles are padded to this
constexpr std::int64_t kNarrow = 32;  // blocks: a row that spans more is dense enough for the large tile
constexpr TileSize kLarge{64, 64};    // within 2 points of the best everywhere, forward and backward
constexpr TileSize kSmall{32, 32};    // a window of 256 wastes 12% of its pairs in these, 25% in the large ones
constexpr double kSmallCost = 1.05;   // per visited pair, against the large tile

// Keys that a block of queries in the middle of the sequence visits; -1 when they span too many blocks to count.
std::int64_t visited_keys(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  const std::int64_t row = n_q / 2 / tile.query * tile.query, shift = n_k - n_q;
  Pattern::Rect rect{row + shift, std::min<std::int64_t>(row + tile.query, n_q) + shift, 0, 0};
  const Pattern::Range keys = pattern.keys(rect.query_begin, rect.query_end, n_k);
  const std::int64_t begin = keys.begin / tile.key, end = (keys.end + tile.key - 1) / tile.key;
  if (end - begin > kNarrow) return -1;
  std::int64_t blocks = 0;
  for (std::int64_t block = begin; block < end; ++block) {
    rect.key_begin = block * tile.key;
    rect.key_end = std::min(rect.key_begin + tile.key, n_k);
    blocks += pattern.cover(rect) != Pattern::Cover::none;
  }
  return blocks * tile.key;
}

}  // namespace

TileSize tile_size_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, std::int64_t) {
  TileSize tile = kLarge;
  if (n_q > kSmall.query && n_k > kSmall.key) {
    const std::int64_t large = visited_keys(pattern, n_q, n_k, kLarge);
    const std::int64_t small = visited_keys(pattern, n_q, n_k, kSmall);
    if (large > 0 && small > 0 && kSmallCost * static_cast<double>(small) < static_cast<double>(large)) tile = kSmall;
  }
  if (n_q < tile.query) {
    const auto rows = static_cast<std::int32_t>(std::max<std::int64_t>(n_q, 1));
    tile.query = (rows + kLanes - 1) / kLanes * kLanes;
  }
  return tile;
}

}  // namespace fovea::tile

#include <algorithm>

#include "fovea/pattern.h"
#include "tile/plan.h"

namespace fovea::tile {
namespace {

constexpr std::int32_t kLanes = 16;  // query tiles are padded to this
constexpr TileSize kLarge{64, 64};   // within 2 points of the best everywhere, forward and backward
constexpr TileSize kSmall{32, 32};   // a window of 256 wastes 12% of its pairs in these, 25% in the large ones
constexpr double kSmallCost = 1.05;  // per visited pair, against the large tile

// Blocks among [begin, end) that one block of queries visits, by halving.
std::int64_t visited_blocks(const Pattern& pattern, Pattern::Rect rows, std::int64_t begin, std::int64_t end,
                            std::int64_t tile) {
  rows.key_begin = begin * tile;
  rows.key_end = end * tile;
  const Pattern::Cover cover = pattern.cover(rows);
  if (cover == Pattern::Cover::none) return 0;
  if (cover == Pattern::Cover::whole || end - begin == 1) return end - begin;
  const std::int64_t middle = begin + (end - begin) / 2;
  return visited_blocks(pattern, rows, begin, middle, tile) + visited_blocks(pattern, rows, middle, end, tile);
}

// Keys that a block of queries in the middle of the sequence visits.
std::int64_t visited_keys(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile) {
  const std::int64_t row = n_q / 2 / tile.query * tile.query, shift = n_k - n_q;
  const Pattern::Rect rows{row + shift, std::min<std::int64_t>(row + tile.query, n_q) + shift, 0, 0};
  const Pattern::Range keys = pattern.keys(rows.query_begin, rows.query_end, n_k);
  if (keys.begin >= keys.end) return 0;
  const std::int64_t begin = keys.begin / tile.key, end = (keys.end - 1) / tile.key + 1;
  return tile.key * visited_blocks(pattern, rows, begin, end, tile.key);
}

}  // namespace

template <>
TileSize tile_size_for<Device::cpu>(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k) {
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

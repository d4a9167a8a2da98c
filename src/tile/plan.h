#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/pattern.h"

namespace fovea::tile {

// A pattern cut into blocks for one (n_q, n_k) and one tile size: which key blocks each query block reads, the
// transpose of that, and bit masks for the blocks that are kept only in part (equal masks are stored once).
struct Plan {
  struct Entry {
    std::int32_t block;  // key block in rows, query block in columns
    std::int32_t mask;   // kWhole, or an index into masks
  };
  static constexpr std::int32_t kWhole = -1;

  std::int64_t n_q = 0, n_k = 0;
  std::int32_t tile_q = 0, tile_k = 0;
  std::vector<std::int64_t> row_start;     // entries of query block i: rows[row_start[i] .. row_start[i + 1])
  std::vector<Entry> rows;
  std::vector<std::int64_t> column_start;  // the same by key block
  std::vector<Entry> columns;
  // Mask m, key column j of the tile: words [(m * tile_k + j) * words_per_key, ...): bit i = query row i is kept.
  // (Lanes are queries in the kernels, so a column's bits are one or two mask registers.)
  std::vector<std::uint64_t> masks;
  std::int64_t kept_pairs = 0;

  std::int64_t words_per_key() const { return (tile_q + 63) / 64; }
  std::int64_t query_blocks() const { return (n_q + tile_q - 1) / tile_q; }
  std::int64_t key_blocks() const { return (n_k + tile_k - 1) / tile_k; }
};

struct TileSize {
  std::int32_t query, key;
};

// Compiles, or finds among those compiled before (by pattern text and sizes; bounded, thread-safe).
std::shared_ptr<const Plan> plan_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile);

// The tile the kernels like for this pattern, measured: small ones for narrow windows, wide keys for full rows.
TileSize tile_size_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, std::int64_t d);

}  // namespace fovea::tile

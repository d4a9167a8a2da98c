#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fovea/memory.h"

namespace fovea {
class Pattern;
}

namespace fovea::tile {

struct TileSize {
  std::int32_t query, key;
  bool operator==(const TileSize&) const = default;
};

// A pattern cut into blocks for one (n_q, n_k) and one tile size: which key blocks each query block reads, the
// transpose of that, and bit masks for the blocks that are kept only in part (equal masks are stored once).
struct Plan {
  // A run of neighbouring blocks: whole ones of any number, or a single one kept in part.
  struct Entry {
    std::int32_t block;  // the first: a key block in rows, a query block in columns
    std::int32_t count;
    std::int32_t mask;  // kWhole, or an index into masks
  };
  static constexpr std::int32_t kWhole = -1;

  // Ranges of query and key blocks that have no pair with anything outside: independent problems. A block-diagonal
  // pattern has one per block, a causal one has one.
  struct Island {
    std::int32_t query_begin, query_end, key_begin, key_end;
  };

  std::uint64_t id = 0;  // no other plan of the process has it: what was derived from a plan is found by it
  std::int64_t n_q = 0, n_k = 0;
  std::int32_t tile_q = 0, tile_k = 0;
  std::vector<std::int64_t> row_start;  // entries of query block i: rows[row_start[i] .. row_start[i + 1])
  std::vector<Entry> rows;
  std::vector<std::int64_t> column_start;  // the same by key block
  std::vector<Entry> columns;
  // Mask m, key column j of the tile: words [(m * tile_k + j) * words_per_key, ...): bit i = query row i is kept.
  // (Lanes are queries in the kernels, so a column's bits are one or two mask registers.)
  std::vector<std::uint64_t> masks;
  std::vector<Island> islands;  // in order; together they hold every query block and every key block
  std::int64_t kept_pairs = 0;

  TileSize tile() const { return {tile_q, tile_k}; }
  std::int64_t words_per_key() const { return (tile_q + 63) / 64; }
  std::int64_t query_blocks() const { return (n_q + tile_q - 1) / tile_q; }
  std::int64_t key_blocks() const { return (n_k + tile_k - 1) / tile_k; }
  std::span<const Entry> row(std::int64_t query_block) const { return span(rows, row_start, query_block); }
  std::span<const Entry> column(std::int64_t key_block) const { return span(columns, column_start, key_block); }
  const std::uint64_t* mask(std::int32_t index) const { return masks.data() + index * tile_k * words_per_key(); }
  std::size_t bytes() const;

 private:
  static std::span<const Entry> span(const std::vector<Entry>& entries, const std::vector<std::int64_t>& start,
                                     std::int64_t i) {
    const auto begin = static_cast<std::size_t>(start[static_cast<std::size_t>(i)]);
    const auto end = static_cast<std::size_t>(start[static_cast<std::size_t>(i) + 1]);
    return std::span(entries).subspan(begin, end - begin);
  }
};

// Compiles, or finds among those compiled before (by pattern text and sizes; bounded, thread-safe).
std::shared_ptr<const Plan> plan_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile);
// The same in the tiles that the kernels of a device like for this pattern.
std::shared_ptr<const Plan> plan_for(Device device, const Pattern& pattern, std::int64_t n_q, std::int64_t n_k);

// Compiles without the cache.
Plan compile_plan(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k, TileSize tile);
// How often this process has compiled a plan: what is called again should find its own.
std::uint64_t compiled_plans();

// Measured: on the CPU small ones for narrow windows, wide keys for full rows.
template <Device>
TileSize tile_size_for(const Pattern& pattern, std::int64_t n_q, std::int64_t n_k);

}  // namespace fovea::tile

#pragma once

#include <cstdint>

#include "tile/plan.h"

namespace fovea::tile {

// Walks the key blocks of an island in order and tells which query blocks they need: a query block opens at the first
// key block of its row and closes after the last. When rows begin and end in order (full, causal, windows, diagonals)
// the open blocks are always one range, and their copies fit a ring buffer of `widest` slots.
class Band {
 public:
  Band(const Plan& plan, const Plan::Island& island)
      : plan_(&plan), island_(island), open_(island.query_begin), closed_(open_) {}

  struct Range {
    std::int32_t begin, end;
  };
  // Query blocks to open before a key block, and to close after it. Key blocks come in order; the last closes the rest.
  Range opens_at(std::int32_t key_block) {
    const std::int32_t begin = open_;
    while (open_ < island_.query_end && (first(open_) <= key_block || is_last(key_block))) ++open_;
    return {begin, open_};
  }
  Range closes_at(std::int32_t key_block) {
    const std::int32_t begin = closed_;
    while (closed_ < open_ && (last(closed_) <= key_block || is_last(key_block))) ++closed_;
    return {begin, closed_};
  }

  // The most query blocks open at once; 0 when the rows are not in order.
  static std::int32_t widest(const Plan& plan, const Plan::Island& island);

 private:
  bool is_last(std::int32_t key_block) const { return key_block + 1 >= island_.key_end; }
  // Rows without keys open and close as soon as their turn comes.
  std::int32_t first(std::int32_t query_block) const {
    const auto row = plan_->row(query_block);
    return row.empty() ? -1 : row.front().block;
  }
  std::int32_t last(std::int32_t query_block) const {
    const auto row = plan_->row(query_block);
    return row.empty() ? -1 : row.back().block + row.back().count - 1;
  }

  const Plan* plan_;
  Plan::Island island_;
  std::int32_t open_, closed_;
};

}  // namespace fovea::tile

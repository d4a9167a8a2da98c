#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/cuda/memory.h"
#include "tile/cuda/launch.h"
#include "tile/cuda/view.h"

namespace fovea::tile::cuda {

// A plan on the card.
struct DevicePlan {
  DeviceBuffer memory;
  ListView rows[2], columns[2];
  std::vector<std::int32_t> row_blocks[2], column_blocks[2];  // streamed blocks of each own tile
  std::vector<std::int32_t> row_start[2], column_start[2];
  std::vector<ListView::Entry> row_entries[2], column_entries[2];
  bool has_parts = false;
  bool is_diagonal = false;  // every own tile reads the block of its own number alone
};

// The work of a list of pieces on the card.
struct Schedule {
  // Own tiles, those with the most blocks first: whole lists, and the same with long lists cut into parts.
  struct Items {
    const Item* data = nullptr;
    std::int32_t count = 0;
    const Item* parts = nullptr;
    std::int32_t part_count = 0;
    const Merge* merges = nullptr;
    std::int32_t merge_count = 0, slots = 0;
    double mean_blocks = 0.0;  // streamed, of a whole list
  };
  std::vector<std::shared_ptr<const DevicePlan>> plans;
  DeviceBuffer memory;
  const PieceView* pieces = nullptr;
  std::vector<PieceView> host_pieces;
  std::int64_t rows = 0;                 // queries of all pieces
  std::int64_t longest_row = 0;          // keys, in whole blocks
  std::int32_t largest_own[2] = {0, 0};  // rows of the largest query block and key block
  bool has_parts = false;
  bool is_standard = true;  // every plan is made of kTile
  bool is_diagonal = true;  // and every plan is so: items by rows and by columns are the same
  Items by_rows[2], by_columns[2];
};

// Uploads, or finds what was uploaded for the same pieces, plans and heads before (bounded, thread-safe, per device).
std::shared_ptr<const Schedule> schedule_for(const Problem& problem);

}  // namespace fovea::tile::cuda

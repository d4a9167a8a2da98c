#pragma once

#include <memory>
#include <vector>

#include "core/cuda/memory.h"
#include "scan/cuda/launch.h"
#include "scan/cuda/view.h"

namespace fovea::scan::cuda {

// Ranges of rows on the card.
struct Cuts {
  const Cut* data = nullptr;
  std::int32_t count = 0;
};

// The work of a list of pieces on the card. How it is cut follows from the shape alone.
struct Schedule {
  DeviceBuffer memory;
  const PieceView* pieces = nullptr;
  const double* head_decay = nullptr;
  std::vector<PieceView> host_pieces;
  std::int64_t query_rows = 0, key_rows = 0, longest = 0;
  bool causal = false, is_step = false;
  bool is_cut = false;            // some piece has several segments
  Cuts segments;                  // causal: positions that start from a state of their own; else the keys of sums
  Cuts query_segments;            // the queries of sums
  Cuts norm_ranges;               // queries for as many blocks as run on an H200 at once
  Cuts query_ranges, key_ranges;  // short ranges that have nothing to do with each other
};

// Uploads, or finds what was uploaded for the same pieces, heads and decays before (bounded, thread-safe, per device).
std::shared_ptr<const Schedule> schedule_for(const Problem& problem, bool causal);

}  // namespace fovea::scan::cuda

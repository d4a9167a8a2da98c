#pragma once

#include <cstdint>
#include <vector>

#include "inspect/sink.h"

// What the kernels of a card are told of a map, and what they find: plain lists of the host.
namespace fovea::inspection {

// What is summed up of the rows of a map.
struct MapSpec {
  MapShape shape;
  bool causal = false;
  std::int64_t top = 1, block = 64;
  std::vector<std::int64_t> windows;  // of the curve: sizes, ascending
  std::int64_t grid_rows = 0, grid_columns = 0, cell_rows = 1, cell_keys = 1;
};

// All by head first.
struct MapSums {
  std::vector<float> entropy, row_sum, max_logit;  // (heads, n_q)
  std::vector<std::int32_t> top_keys;              // (heads, n_q, top)
  std::vector<float> top_weights;
  std::vector<double> received;  // (heads, n_k)
  std::vector<double> distance;  // (heads, n_q + n_k - 1)
  std::vector<double> windows;   // (heads, windows + 1): mass that a window adds to the one before; last that of blocks
  std::vector<double> cells;     // (heads, grid_rows, grid_columns)
  std::vector<float> largest;

  explicit MapSums(const MapSpec& spec);
};

}  // namespace fovea::inspection

#include "inspect/map_sums.h"

#include <cmath>
#include <iterator>

#include "inspect/row_math.h"

namespace fovea::inspection {

MapSums::MapSums(const MapSpec& spec) {
  const auto [heads, n_q, n_k] = spec.shape;
  const std::int64_t rows = heads * n_q, grid = heads * spec.grid_rows * spec.grid_columns;
  entropy.assign(size(rows), 0.0f);
  row_sum.assign(size(rows), 0.0f);
  max_logit.assign(size(rows), -INFINITY);
  top_keys.assign(size(rows * spec.top), -1);
  top_weights.assign(size(rows * spec.top), 0.0f);
  received.assign(size(heads * n_k), 0.0);
  distance.assign(size(heads * (n_q + n_k - 1)), 0.0);
  windows.assign(size(heads * (std::ssize(spec.windows) + 1)), 0.0);
  cells.assign(size(grid), 0.0);
  largest.assign(size(grid), 0.0f);
}

}  // namespace fovea::inspection

#pragma once

#include "core/cuda/launch.h"
#include "fovea/inspect.h"
#include "inspect/map_sums.h"
#include "tile/contract.h"

namespace fovea::inspection::cuda {

// The map of a problem of one sequence: arrays of the card, pieces and plans of the host. Scores are those of the tiled
// engine; of features (scale 1) they are their products.
struct CardMap {
  const tile::Problem& problem;
  In q, k;
  const RowRecipe& recipe;
  std::int64_t row_bytes = std::int64_t{64} << 20;  // of rows at a time; one block of queries at least
};

// Returns when it is done. Memory grows with the tokens: rows are made, measured and forgotten.
MapSums sum_map(const device::Launch& launch, const CardMap& map, const MapSpec& spec);
// (rows, keys) of one head, not divided by anything.
std::vector<float> rectangle(const device::Launch& launch, const CardMap& map, const MapShape& shape,
                             const MapRequest& request);

}  // namespace fovea::inspection::cuda

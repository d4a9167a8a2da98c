#pragma once

#include <cstdint>

// Sums over a tile of weights [keys, lanes]: at most kTileSide of each, lanes a multiple of 16. Loops that are compiled
// for each instruction set.
namespace fovea::inspection {

inline constexpr std::int64_t kTileSide = 64;

struct TileView {
  const float* weights;
  std::int64_t keys, lanes;
  std::int64_t stride;  // from key to key
};

// By key, and by lane - key: element keys - 1 - key + lane of lanes + keys - 1.
struct TileSums {
  float by_key[kTileSide];
  alignas(64) float by_diagonal[2 * kTileSide];
};
void sum_tile(const TileView& tile, TileSums& sums);

// Over the keys, by lane.
struct LaneSums {
  float sum[kTileSide];
  float largest[kTileSide];  // of weights that are not negative
};
void sum_lanes(const TileView& tile, LaneSums& sums);

}  // namespace fovea::inspection

#include "inspect/tile_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inspect/cpu/tile_math.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include <algorithm>

#include "core/isa.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::inspection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Neighbouring keys add to neighbouring diagonals: the sums are read again before they have left the store buffer, and
// every read that overlaps two stores waits for both. Each of so many keys in turn has sums of its own.
inline constexpr std::int64_t kCopies = 8;

void sum_tile(const TileView& tile, TileSums& sums) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  alignas(64) float copies[kCopies][2 * kTileSide];
  std::fill_n(copies[0], kCopies * 2 * kTileSide, 0.0f);
  const float* HWY_RESTRICT w = tile.weights;
  for (std::int64_t j = 0; j < tile.keys; ++j, w += tile.stride) {
    float* HWY_RESTRICT diagonal = copies[j % kCopies] + (tile.keys - 1 - j);
    auto sum = hn::Zero(d);
    for (std::int64_t l = 0; l < tile.lanes; l += width) {
      const auto x = hn::LoadU(d, w + l);
      sum = hn::Add(sum, x);
      hn::StoreU(hn::Add(hn::LoadU(d, diagonal + l), x), d, diagonal + l);
    }
    sums.by_key[j] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (std::int64_t u = 0; u < tile.keys + tile.lanes; u += width) {
    auto sum = hn::LoadU(d, copies[0] + u);
    for (std::int64_t c = 1; c < kCopies; ++c) sum = hn::Add(sum, hn::LoadU(d, copies[c] + u));
    hn::StoreU(sum, d, sums.by_diagonal + u);
  }
}

void sum_lanes(const TileView& tile, LaneSums& sums) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t l = 0; l < tile.lanes; l += width) {
    const float* HWY_RESTRICT w = tile.weights + l;
    auto sum = hn::Zero(d), largest = hn::Zero(d);
    for (std::int64_t j = 0; j < tile.keys; ++j, w += tile.stride) {
      const auto x = hn::LoadU(d, w);
      sum = hn::Add(sum, x);
      largest = hn::Max(largest, x);
    }
    hn::StoreU(sum, d, sums.sum + l);
    hn::StoreU(largest, d, sums.largest + l);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::inspection
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::inspection {
HWY_EXPORT(sum_tile);
HWY_EXPORT(sum_lanes);

void sum_tile(const TileView& tile, TileSums& sums) { HWY_DYNAMIC_DISPATCH(sum_tile)(tile, sums); }
void sum_lanes(const TileView& tile, LaneSums& sums) { HWY_DYNAMIC_DISPATCH(sum_lanes)(tile, sums); }

}  // namespace fovea::inspection
#endif  // HWY_ONCE

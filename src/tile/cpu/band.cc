#include "tile/cpu/band.h"

#include <algorithm>

namespace fovea::tile {

std::int32_t Band::widest(const Plan& plan, const Plan::Island& island) {
  Band band(plan, island);
  std::int32_t first = -1, last = -1;
  for (std::int32_t block = island.query_begin; block < island.query_end; ++block) {
    if (plan.row(block).empty()) continue;
    if (band.first(block) < first || band.last(block) < last) return 0;
    first = band.first(block);
    last = band.last(block);
  }
  std::int32_t widest = 1;
  for (std::int32_t key_block = island.key_begin; key_block < island.key_end; ++key_block) {
    const Range opened = band.opens_at(key_block);
    widest = std::max(widest, opened.end - band.closed_);
    band.closes_at(key_block);
  }
  return widest;
}

}  // namespace fovea::tile

#include "tile/cpu/units.h"

#include <algorithm>

namespace fovea::tile {

std::vector<Unit> list_units(const Problem& problem) {
  std::vector<Unit> units;
  for (const Piece& piece : problem.pieces)
    for (const Plan::Island& island : piece.plan->islands)
      for (std::int64_t head = 0; head < problem.kv_heads; ++head) units.push_back({&piece, island, head, nullptr});
  return units;
}

TileSize largest_tile(const Problem& problem) {
  TileSize largest{0, 0};
  for (const Piece& piece : problem.pieces)
    largest = {std::max(largest.query, piece.plan->tile_q), std::max(largest.key, piece.plan->tile_k)};
  return largest;
}

std::vector<Wave> cut_waves(const std::vector<Unit>& units, std::size_t budget,
                            const std::function<std::size_t(const Unit&)>& bytes_of) {
  std::vector<Wave> waves;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t bytes = bytes_of(units[i]);
    if (waves.empty() || waves.back().bytes + bytes > budget) waves.push_back({i, i, 0});
    waves.back().end = i + 1;
    waves.back().bytes += bytes;
  }
  return waves;
}

void fetch_rows(const Problem& problem, const Unit& unit, const In& array, RowsOf rows, Prefetch& next) {
  const bool of_keys = rows == RowsOf::keys || rows == RowsOf::values;
  const std::int64_t width = rows == RowsOf::keys || rows == RowsOf::queries ? problem.d_k : problem.d_v;
  const std::int64_t head = of_keys ? unit.kv_head : heads_of(problem, unit.kv_head).begin;
  const std::int64_t first = of_keys ? unit.piece->k0 + unit.key_begin() : unit.piece->q0 + unit.query_begin();
  const std::size_t size = size_of(problem.dtype);
  next.add(element(array, problem.dtype, unit.piece->batch, first, head), static_cast<std::size_t>(width) * size,
           static_cast<std::size_t>(array.row) * size,
           static_cast<std::size_t>(of_keys ? unit.keys() : unit.queries()));
}

std::size_t register_tiles(const Problem& problem, const Unit& unit) {
  constexpr std::int64_t kResults = 256;  // of one register tile
  std::int64_t visits = 0;
  for (std::int32_t block = unit.island.query_begin; block < unit.island.query_end; ++block)
    for (const Plan::Entry& entry : unit.plan().row(block)) visits += entry.count;
  const std::int64_t heads = heads_of(problem, unit.kv_head).size();
  return static_cast<std::size_t>(visits * heads * unit.plan().tile_q * unit.plan().tile_k / kResults);
}

}  // namespace fovea::tile

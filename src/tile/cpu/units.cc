#include "tile/cpu/units.h"

namespace fovea::tile {
namespace {

// Key blocks that rows [begin, end) read: first and past-last.
BlockRange keys_of_rows(const Plan& plan, std::int32_t begin, std::int32_t end) {
  BlockRange hull{0, 0};
  for (std::int32_t block = begin; block < end; ++block) {
    const auto row = plan.row(block);
    if (row.empty()) continue;
    const BlockRange keys{row.front().block, row.back().block + row.back().count};
    hull = hull.begin == hull.end ? keys : BlockRange{std::min(hull.begin, keys.begin), std::max(hull.end, keys.end)};
  }
  return hull;
}

// Greedy ranges of at most `max_blocks` key blocks; empty when a single row needs more.
Islands cut_island(const Plan& plan, const Plan::Island& island, std::int64_t max_blocks) {
  Islands out;
  for (std::int32_t begin = island.query_begin; begin < island.query_end;) {
    BlockRange keys = keys_of_rows(plan, begin, begin + 1);
    if (keys.end - keys.begin > max_blocks) return {};
    std::int32_t end = begin + 1;
    for (; end < island.query_end; ++end) {
      const BlockRange more = keys_of_rows(plan, end, end + 1);
      if (more.begin == more.end) continue;
      const BlockRange both =
          keys.begin == keys.end ? more : BlockRange{std::min(keys.begin, more.begin), std::max(keys.end, more.end)};
      if (both.end - both.begin > max_blocks) break;
      keys = both;
    }
    out.push_back({begin, end, keys.begin, keys.end});
    begin = end;
  }
  return out;
}

// Ranges of query blocks of a long island with few keys, each long enough that packing the keys again is a fiftieth of
// its work. A thread can then fetch the rows of its next range while it works on one.
Islands cut_tall(const Plan& plan, const Plan::Island& island) {
  constexpr std::int64_t kRows = 512;
  const std::int64_t keys = (island.key_end - island.key_begin) * std::int64_t{plan.tile_k};
  const auto blocks = static_cast<std::int32_t>(std::max(kRows, keys) / plan.tile_q);
  if (island.query_end - island.query_begin < 2 * blocks) return {island};
  Islands out;
  for (std::int32_t begin = island.query_begin; begin < island.query_end; begin += blocks)
    out.push_back({begin, std::min(begin + blocks, island.query_end), island.key_begin, island.key_end});
  return out;
}

}  // namespace

std::vector<Unit> list_units(const Problem& problem, const std::function<Islands(const Plan&)>& cut) {
  std::vector<Unit> units;
  for (const Piece& piece : problem.pieces)
    for (const Plan::Island& island : cut(*piece.plan))
      for (std::int64_t head = 0; head < problem.kv_heads; ++head) {
        if (piece.kv_head >= 0 && piece.kv_head != head) continue;
        Unit unit{.piece = &piece, .island = island, .kv_head = head};
        unit.query_slots = unit.query_blocks();
        unit.key_slots = unit.key_blocks();
        units.push_back(unit);
      }
  return units;
}

Islands cut_narrow(const Plan& plan, std::int64_t max_keys) {
  Islands out;
  for (const Plan::Island& island : plan.islands) {
    const std::int64_t blocks = island.key_end - island.key_begin;
    Islands parts;
    if (blocks * plan.tile_k <= max_keys) {
      const Islands ranges = cut_tall(plan, island);
      out.insert(out.end(), ranges.begin(), ranges.end());
      continue;
    }
    parts = cut_island(plan, island, max_keys / plan.tile_k);
    std::int64_t copied = 0;
    for (const Plan::Island& part : parts) copied += part.key_end - part.key_begin;
    if (parts.empty() || 2 * copied > 3 * blocks)  // copying more than half of the keys twice is no gain
      out.push_back(island);
    else
      out.insert(out.end(), parts.begin(), parts.end());
  }
  return out;
}

StoreMode store_mode_for(const Problem& problem) {
  constexpr std::int64_t kLarge = std::int64_t{8} << 20;
  std::int64_t queries = 0, keys = 0;
  for (const Piece& piece : problem.pieces) {
    queries += piece.nq;
    keys += piece.nk;
  }
  const std::int64_t rows = std::max(queries * problem.heads, keys * problem.kv_heads);
  return rows * problem.d_v * static_cast<std::int64_t>(size_of(problem.dtype)) > kLarge ? StoreMode::streamed
                                                                                         : StoreMode::cached;
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

void UnitFetch::keys(BlockRange blocks, const In& k, const In& v) const {
  const Piece& piece = *unit.piece;
  const std::int64_t first = std::int64_t{blocks.begin} * unit.plan().tile_k;
  const std::int64_t rows = std::min(std::int64_t{blocks.end} * unit.plan().tile_k, piece.nk) - first;
  if (rows <= 0) return;
  const std::int64_t row = piece.key_row(first);
  const std::size_t size = size_of(problem.dtype);
  const auto add = [&](const In& array, std::int64_t width) {
    next.add(element(array, problem.dtype, piece.batch, row, unit.kv_head), static_cast<std::size_t>(width) * size,
             static_cast<std::size_t>(array.row * piece.k_step) * size, static_cast<std::size_t>(rows));
  };
  add(k, problem.d_k);
  add(v, problem.d_v);
}

void UnitFetch::queries(BlockRange blocks, const In& q) const { query_rows(blocks, q, problem.d_k, problem.dtype); }
void UnitFetch::outputs(BlockRange blocks, const In& o) const {
  query_rows(blocks, o, problem.d_v, problem.output_type());
}

void UnitFetch::query_rows(BlockRange blocks, const In& array, std::int64_t width, DType dtype) const {
  const Piece& piece = *unit.piece;
  const std::int64_t first = std::int64_t{blocks.begin} * unit.plan().tile_q;
  const std::int64_t rows = std::min(std::int64_t{blocks.end} * unit.plan().tile_q, piece.nq) - first;
  if (rows <= 0 || array.data == nullptr) return;
  const std::int64_t head = heads_of(problem, unit.kv_head).begin;
  const std::size_t size = size_of(dtype);
  next.add(element(array, dtype, piece.batch, piece.query_row(first), head), static_cast<std::size_t>(width) * size,
           static_cast<std::size_t>(array.row * piece.q_step) * size, static_cast<std::size_t>(rows));
}

}  // namespace fovea::tile

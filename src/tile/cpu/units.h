#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "tile/cpu/kernel.h"
#include "tile/cpu/scratch.h"

// How the drivers cut a problem into work.
namespace fovea::tile {

// The units of a problem, for every kv head of each of the islands `cut` makes of a piece's plan. Neighbours share
// rows: kv heads inside islands inside pieces. All blocks have a slot.
using Islands = std::vector<Plan::Island>;
std::vector<Unit> list_units(const Problem& problem, const std::function<Islands(const Plan&)>& cut);

// A plan's islands, the long and narrow ones cut further into ranges of query blocks that read at most `max_keys` keys
// each (sliding windows). Keys then belong to several ranges: for forward only.
Islands cut_narrow(const Plan& plan, std::int64_t max_keys);

// The largest tile sides among the plans of the pieces.
TileSize largest_tile(const Problem& problem);

// Whether arrays of this problem's outputs are too large for the caches.
Keep keep_for(const Problem& problem);

// A contiguous run of units, packed at the same time.
struct Wave {
  std::size_t begin, end;
  std::size_t bytes;
};

// Cuts units into waves of at most `budget` packed bytes (or one unit).
std::vector<Wave> cut_waves(const std::vector<Unit>& units, std::size_t budget,
                            const std::function<std::size_t(const Unit&)>& bytes_of);

// The memory of some units, and where each of them has its part.
class UnitMemory {
 public:
  template <class BytesOf>
  UnitMemory(Allocator& allocator, std::span<Unit> units, const BytesOf& bytes_of)
      : UnitMemory(allocator, sum(units, bytes_of)) {
    UnitBytes used;
    for (Unit& unit : units) {
      unit.packed_keys = keys_.data() + used.keys;
      unit.packed_queries = queries_.data() + used.queries;
      unit.sums = sums_.data() + used.sums;
      unit.notes = notes_.data() + used.notes;
      used += bytes_of(unit);
    }
  }

  // One unit in one block of bytes.all().
  static void place(Unit& unit, const UnitBytes& bytes, std::byte* base) {
    unit.packed_keys = base;
    unit.packed_queries = unit.packed_keys + bytes.keys;
    unit.sums = unit.packed_queries + bytes.queries;
    unit.notes = unit.sums + bytes.sums;
  }

 private:
  UnitMemory(Allocator& allocator, const UnitBytes& total)
      : keys_(allocator, total.keys),
        queries_(allocator, total.queries),
        sums_(allocator, total.sums),
        notes_(allocator, total.notes) {}
  template <class BytesOf>
  static UnitBytes sum(std::span<Unit> units, const BytesOf& bytes_of) {
    UnitBytes total;
    for (const Unit& unit : units) total += bytes_of(unit);
    return total;
  }

  Scratch keys_, queries_, sums_, notes_;
};

// Hands out units to threads, whole ones, kv heads of the same rows one after the other while there is enough for
// everybody: body(unit, the unit this thread does next or null, rank).
template <class Body>
void for_each_unit(const Context& context, const Problem& problem, const std::vector<Unit>& units, Body&& body) {
  const auto total = static_cast<std::int64_t>(units.size());
  const bool plenty = total / problem.kv_heads >= 4 * context.threads();
  const std::int64_t run = plenty ? problem.kv_heads : 1, tickets = (total + run - 1) / run;
  parallel(context.threads(), [&](const Team& team) {
    for (std::int64_t ticket = team.take(), next; ticket < tickets; ticket = next) {
      next = team.take();
      for (std::int64_t i = ticket * run; i < std::min((ticket + 1) * run, total); ++i) {
        const std::int64_t following = i + 1 < (ticket + 1) * run ? i + 1 : next * run;
        body(units[static_cast<std::size_t>(i)],
             following < total ? &units[static_cast<std::size_t>(following)] : nullptr, team.rank());
      }
    }
  });
}

// Asks for the rows of some blocks of a unit ahead of time: those of its kv head, or of its first query head.
struct UnitFetch {
  const Problem& problem;
  const Unit& unit;
  Prefetch& next;

  void keys(BlockRange blocks, const In& k, const In& v) const;
  void queries(BlockRange blocks, const In& array, std::int64_t width) const;

 private:
  void add(const void* data, std::int64_t stride, std::int64_t width, std::int64_t rows) const;
};

// About how many register tiles a product takes on `visits` pairs of blocks.
inline std::size_t register_tiles(const Plan& plan, std::int64_t visits) {
  constexpr std::int64_t kResults = 256;  // of one register tile
  return static_cast<std::size_t>(visits * plan.tile_q * plan.tile_k / kResults);
}
inline std::int64_t count_blocks(std::span<const Plan::Entry> entries) {
  std::int64_t count = 0;
  for (const Plan::Entry& entry : entries) count += entry.count;
  return count;
}
// How many blocks come before this one.
inline std::int32_t count_before(std::span<const Plan::Entry> entries, std::int32_t block) {
  std::int32_t count = 0;
  for (const Plan::Entry& entry : entries) {
    if (entry.block >= block) break;
    count += std::min(entry.count, block - entry.block);
  }
  return count;
}

}  // namespace fovea::tile

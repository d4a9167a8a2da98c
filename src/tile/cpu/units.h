#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "tile/cpu/kernel.h"

// How the drivers cut a problem into work.
namespace fovea::tile {

// The units of a problem, for every kv head of each of the islands `cut` makes of a piece's plan. Neighbours share
// rows: kv heads inside islands inside pieces. All blocks have a slot.
using Islands = std::vector<Plan::Island>;
std::vector<Unit> list_units(const Problem& problem, const std::function<Islands(const Plan&)>& cut);

// A plan's islands, the long and narrow ones cut further into ranges of query blocks that read at most `max_keys` keys
// each (sliding windows). Keys then belong to several ranges: for forward only.
Islands cut_narrow(const Plan& plan, std::int64_t max_keys);

// What the pieces of a problem need at most: bytes_of(plan).
template <class BytesOf>
std::size_t most_bytes(const Problem& problem, const BytesOf& bytes_of) {
  std::size_t most = 0;
  for (const Piece& piece : problem.pieces) most = std::max(most, bytes_of(*piece.plan));
  return most;
}

// Whether arrays of this problem's outputs are too large for the caches.
StoreMode store_mode_for(const Problem& problem);

// A contiguous run of units, packed at the same time.
struct Wave {
  std::size_t begin, end;
  std::size_t bytes;
};

// Cuts units into waves of at most `budget` packed bytes (or one unit).
std::vector<Wave> cut_waves(const std::vector<Unit>& units, std::size_t budget,
                            const std::function<std::size_t(const Unit&)>& bytes_of);

// One unit in one room of bytes.all().
inline UnitRoom divide(Room room, const UnitBytes& bytes) {
  const auto take = [&](std::size_t size) {
    const Room part = room.first(size);
    room = room.subspan(size);
    return part;
  };
  return {take(bytes.keys), take(bytes.queries), take(bytes.sums), take(bytes.notes)};
}

// The memory of some units, and where each of them has its part.
class UnitMemory {
 public:
  template <class BytesOf>
  UnitMemory(const Context& context, std::span<Unit> units, const BytesOf& bytes_of)
      : UnitMemory(context, sum(units, bytes_of)) {
    UnitBytes used;
    for (Unit& unit : units) {
      const UnitBytes bytes = bytes_of(unit);
      unit.room = {keys_.all().subspan(used.keys, bytes.keys), queries_.all().subspan(used.queries, bytes.queries),
                   sums_.all().subspan(used.sums, bytes.sums), notes_.all().subspan(used.notes, bytes.notes)};
      used += bytes;
    }
  }

 private:
  UnitMemory(const Context& context, const UnitBytes& total)
      : keys_(context, total.keys),
        queries_(context, total.queries),
        sums_(context, total.sums),
        notes_(context, total.notes) {}
  template <class BytesOf>
  static UnitBytes sum(std::span<Unit> units, const BytesOf& bytes_of) {
    UnitBytes total;
    for (const Unit& unit : units) total += bytes_of(unit);
    return total;
  }

  Scratch<std::byte> keys_, queries_, sums_, notes_;
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
  void queries(BlockRange blocks, const In& q) const;
  void outputs(BlockRange blocks, const In& o) const;  // or one of its kin

 private:
  void query_rows(BlockRange blocks, const In& array, std::int64_t width, DType dtype) const;
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

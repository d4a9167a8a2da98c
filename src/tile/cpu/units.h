#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tile/cpu/kernel.h"

// How the drivers cut a problem into work.
namespace fovea::tile {

// Every (piece, island, kv head) of a problem. Neighbours share rows: kv heads inside islands inside pieces.
std::vector<Unit> list_units(const Problem& problem);

// The largest tile sides among the plans of the pieces.
TileSize largest_tile(const Problem& problem);

// A contiguous run of units, packed at the same time.
struct Wave {
  std::size_t begin, end;
  std::size_t bytes;
};

// Cuts units into waves of at most `budget` packed bytes (or one unit).
std::vector<Wave> cut_waves(const std::vector<Unit>& units, std::size_t budget,
                            const std::function<std::size_t(const Unit&)>& bytes_of);

// Asks for the rows of a unit ahead of time: those of its kv head, or of the first query head of its group.
enum class RowsOf { keys, values, queries, outputs };
void fetch_rows(const Problem& problem, const Unit& unit, const In& array, RowsOf rows, Prefetch& next);

// About how many register tiles a product takes on every visited pair of blocks of a unit.
std::size_t register_tiles(const Problem& problem, const Unit& unit);

}  // namespace fovea::tile

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scan/contract.h"

// How the work is cut. Everything here follows from the shape, except for lanes, which move work between threads
// without changing any sum: results have the same bits at any number of threads.
namespace fovea::scan {

// Rows [begin, end) of one piece, by its number.
struct Cut {
  std::size_t piece;
  std::int64_t begin, end;
};

// Rows that are multiplied at a time.
std::int64_t choose_chunk(const Problem& problem);

// The keys (queries) of pieces [first, last) in segments whose states are summed apart and then in order; one per piece
// at least, even if it is empty.
enum class Side { keys, queries };
std::vector<Cut> cut_for_sums(const Problem& problem, std::size_t first, std::size_t last, Side side);

// The same rows in short ranges that have nothing to do with each other.
std::vector<Cut> cut_for_rows(const Problem& problem, std::size_t first, std::size_t last, Side side);

// Causal pieces in segments that start from a state of their own. Finding those states costs half a forward pass, so
// pieces are cut only where pieces and heads alone give threads too little to do.
std::vector<Cut> cut_for_scan(const Problem& problem, std::size_t first, std::size_t last);

// Pieces are worked on in waves [first, last), so that the states of all their segments take a bounded amount of
// memory.
struct Wave {
  std::size_t first, last;
};
std::vector<Wave> make_waves(const Problem& problem, std::size_t state_bytes);

// Into how many tasks, each with some of the heads, every segment is divided so that the threads are done soonest.
int choose_lanes(std::size_t segments, std::int64_t kv_heads, int threads);

// The kv heads of one lane: [first, last).
struct HeadRange {
  std::int64_t first, last;
};
inline HeadRange heads_of_lane(std::int64_t kv_heads, int lane, int lanes) {
  return {kv_heads * lane / lanes, kv_heads * (lane + 1) / lanes};
}

}  // namespace fovea::scan

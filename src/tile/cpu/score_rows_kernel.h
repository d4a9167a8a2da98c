#pragma once

#include <vector>

#include "tile/cpu/rule_kernel.h"
#include "tile/score_rows.h"

namespace fovea::tile {

struct ScoreRowsCall {
  const Problem& problem;
  const RowRule* rule;  // may be null
  In q, k;
  RowVisitor* rows;    // one of these
  TileVisitor* tiles;  // reads lse
  In lse = {};
};

// What a task writes to besides its scratch.
struct ScoreRowsRoom {
  Room scratch;
  std::vector<KeyRun>& runs;
  std::int64_t share;
};

struct ScoreRowsKernel {
  UnitBytes (*unit_bytes)(const Problem& problem, const Unit& unit);
  std::size_t (*scratch_bytes)(const Problem& problem, const RowSize& size);
  void (*pack)(const ScoreRowsCall& call, const Unit& unit, std::int32_t key_block);
  void (*visit)(const ScoreRowsCall& call, const Unit& unit, HeadBlock queries, const ScoreRowsRoom& room);
};
// Rows for a RowVisitor, or tiles of weights for a TileVisitor.
const ScoreRowsKernel& score_rows_kernel(const ScoreRowsCall& call);

}  // namespace fovea::tile

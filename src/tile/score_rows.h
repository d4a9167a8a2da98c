#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "tile/launch.h"

// The scores of a problem, row after row, for whoever measures them: what the engine weighs before it weighs it. On the
// CPU alone.
namespace fovea::tile {

// Neighbouring keys of a piece; local.
struct KeyRun {
  std::int64_t begin, count;
};

// Some rows of one head of a piece. The keys that the plan reads for them stand one after the other, run by run.
struct ScoreRows {
  const Piece* piece;
  std::int64_t head;
  std::int64_t query, count;  // local rows of the piece
  std::span<const KeyRun> runs;
  float* scores;              // (count, stride): -inf where a pair is hidden; with a rule its weights
  std::int64_t stride, keys;  // keys: of a row
  const float* top;           // (count): the largest score
};

class RowVisitor {
 public:
  virtual ~RowVisitor() = default;
  // Rows of one share (and head) come in order, on one thread; `scores` may be written over.
  virtual void visit(const ScoreRows& rows, std::int64_t share) = 0;
};

// Which rows: of one head (-1: all), with rows of q in [begin, end). Shares divide them by where they are in q, never
// by the number of threads.
struct WantedRows {
  std::int64_t head = -1, begin = 0, end = std::numeric_limits<std::int64_t>::max();
  std::int64_t rows_per_share = std::numeric_limits<std::int64_t>::max();
};

// rule: may be null. Dropout is not applied.
void visit_score_rows(const Context& context, const Problem& problem, const RowRule* rule, const In& q, const In& k,
                      const WantedRows& wanted, RowVisitor& visitor);

// The same with tensors of the host: `work` as a mechanism gave it to the engine.
void visit_score_rows(const Context& context, const Work& work, const Inputs& in, const WantedRows& wanted,
                      RowVisitor& visitor);

}  // namespace fovea::tile

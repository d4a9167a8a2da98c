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

// Softmax weights of one head of a piece, between some of its queries and keys (local rows).
struct WeightTile {
  const Piece* piece;
  std::int64_t head;
  std::int64_t query, queries;
  std::int64_t key, keys;
  float* weights;  // [keys, lanes], queries are lanes: 0 for hidden pairs, in rows without a log-sum-exp, past the last
                   // query
  std::int64_t lanes;
};

struct WeightTilesArrays {
  In q, k, lse;
};

class TileVisitor {
 public:
  virtual ~TileVisitor() = default;
  // Tiles of one share (and head) come on one thread, in an order that is always the same; `weights` may be written
  // over.
  virtual void visit(const WeightTile& tile, std::int64_t share) = 0;
};

// The weights e^(s - lse), for whoever sums them. lse: of the whole rows, (batch, n_q, heads), f32 (f64 for f64).
// Shares go by the first query of a tile.
void visit_weight_tiles(const Context& context, const Problem& problem, const WeightTilesArrays& in,
                        const WantedRows& wanted, TileVisitor& visitor);

// The same with tensors of the host: `work` as a mechanism gave it to the engine.
void visit_score_rows(const Context& context, const Work& work, const Inputs& in, const WantedRows& wanted,
                      RowVisitor& visitor);
void visit_weight_tiles(const Context& context, const Work& work, const Inputs& in, const Tensor& lse,
                        const WantedRows& wanted, TileVisitor& visitor);

}  // namespace fovea::tile

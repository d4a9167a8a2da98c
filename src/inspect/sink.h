#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/context.h"
#include "inspect/row_math.h"
#include "scan/contract.h"
#include "tile/row_statistics.h"
#include "tile/score_rows.h"

// Where rows of a map go, and where they come from.
namespace fovea::inspection {

using tile::KeyRun;

// A row of the map of one head, or a part of it: the weights of its keys, run by run. Key j of a run stands at key
// first_key + j step of the sequence.
struct MapRow {
  std::int64_t head = 0, row = 0;
  float* weights = nullptr;
  std::span<const KeyRun> runs;
  std::int64_t first_key = 0, step = 1;
  double factor = 1.0;    // on the weights
  double row_sum = -1.0;  // of their magnitudes, factor included; below 0: not known yet
  double entropy = -1.0;  // of the part, where it came for free; below 0: not known
  float max_logit = 0.0f;
  bool part = false;  // other parts of the row have other keys; the weights are shares of the whole

  std::int64_t keys() const {
    std::int64_t n = 0;
    for (const KeyRun& run : runs) n += run.count;
    return n;
  }
};

// Takes rows. Those of one head and share come in order, on one thread; the weights may be written over.
class MapSink {
 public:
  virtual ~MapSink() = default;
  virtual void take(const MapRow& row, std::int64_t share) = 0;
};

struct MapShape {
  std::int64_t heads = 0, n_q = 0, n_k = 0;
};

// What an engine has found out of the rows of a map on its way: (1, n_q, heads), the keys and scores also by `top`.
struct RowFacts {
  tile::StatisticsTensors statistics;
  Tensor lse;
};

// How a row of scores, or of products of features, becomes weights.
struct RowRecipe {
  RowWeighing scores = {};
  bool quotient = false;  // weights are divided by the sum of their row afterwards
  // Of features: hidden ones are 0, key j of row i is worth powers[n_k - 1 - (i + n_k - n_q - j)] of its head of keys.
  bool features = false;
  std::vector<float> powers = {};  // (kv_heads, n_k); empty: 1
  scan::Denominator denominator = scan::Denominator::none;
  double eps = 0.0, factor = 1.0;
};

// Rows that one problem of the tiled engine gives: scores, or products of features, and what becomes of them.
struct ScoredRows {
  tile::Work work;
  tile::Inputs in;
  RowRecipe recipe;
};

// Gives the rows of a map, as many as are wanted.
class MapSource {
 public:
  virtual ~MapSource() = default;
  virtual void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const = 0;
  virtual bool has_scores() const { return false; }

  // Facts, if there are any; then its weights also come in tiles, whose queries and keys have steps of equal length.
  virtual const RowFacts* facts() const { return nullptr; }
  virtual void tiles(const Context&, const tile::WantedRows&, tile::TileVisitor&) const {}

  // For those that make and measure rows themselves: cards.
  virtual std::optional<ScoredRows> scored() const { return {}; }
};

}  // namespace fovea::inspection

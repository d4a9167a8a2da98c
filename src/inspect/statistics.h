#pragma once

#include <optional>
#include <vector>

#include "fovea/inspect.h"
#include "inspect/map_sums.h"
#include "inspect/sink.h"

namespace fovea::inspection {

// What is measured, and of what.
struct Measure {
  MapShape shape;
  bool causal = false;
  std::int64_t block = 64;  // of the block-diagonal share
  InspectOptions options;

  // Row i stands on key i + shift(), where keys and rows go at the same pace.
  std::int64_t shift() const { return causal ? shape.n_k - shape.n_q : 0; }
  // Whether all that is wanted can be told from tiles of weights, one by one.
  bool takes_tiles() const { return !options.paper_curve && (causal || shape.n_q <= shape.n_k); }
  // Of point p of the curve: how many of the nearest keys.
  std::int64_t window(std::int64_t p) const;
  // Whether a card can tell it from rows of weights.
  bool takes_sums() const { return !options.paper_curve; }
};

// A level of the pyramid while it is summed up.
struct Grid {
  std::int64_t rows = 0, columns = 0, cell_rows = 1, cell_keys = 1;

  static Grid over(const MapShape& shape, std::int64_t cells);
};

// Sums of one head over the rows of one share.
struct ShareSums {
  std::vector<double> received, distance, curve;
  // Of rows that came in tiles, in place of the curve. A key that is as far on both sides of its row as the sequence
  // reaches is counted by `distance`; beyond, where windows grow on one side alone, the mass is `beyond`, by the number
  // of keys in the smallest window that holds the key, and its distances stand apart.
  std::vector<double> beyond, beyond_distance;
  // Rows of the grid from first_cell on, as many as have been needed, by columns.
  std::int64_t first_cell = -1;
  std::vector<double> cells;
  std::vector<float> largest;
  double block = 0.0;
};

// Adds up rows of maps, or facts of rows and tiles of weights, or takes what a card has summed up.
class MapStatistics final : public MapSink, public tile::TileVisitor {
 public:
  explicit MapStatistics(const Measure& measure);

  std::int64_t top() const { return top_; }
  void take(const RowFacts& facts);
  void visit(const tile::WeightTile& tile, std::int64_t share) override;
  MapSpec spec() const;
  void take(MapSums sums);

  tile::WantedRows wanted() const { return {.rows_per_share = rows_per_share_}; }
  void take(const MapRow& row, std::int64_t share) override;
  std::vector<HeadRecord> finish(const Context& context, bool has_scores);

 private:
  // A row while it is looked at.
  struct Seen {
    const MapRow& row;
    ShareSums& sums;
    HeadRecord& head;
    std::int64_t position;  // of the query among the keys
    std::int64_t share;
    std::int64_t keys;
  };

  // Of a tile, see tiles.cc.
  struct Part;
  enum class Side : std::uint8_t;

  void add_part(const Part& part, ShareSums& sums) const;
  void add_sides(const Part& part, ShareSums& sums) const;
  void add_masses(const Part& part, Side side, ShareSums& sums) const;
  void add_block(const Part& part, ShareSums& sums) const;
  void add_cells(const Part& part, ShareSums& sums) const;
  void add_windows(const ShareSums& part, ShareSums& all) const;

  ShareSums& sums_of(std::int64_t head, std::int64_t share);
  bool settle(const MapRow& row, HeadRecord& head, double& sum);
  void add(const Seen& seen, double factor);
  void keep_top(const Seen& seen, std::span<const float> maxima) const;
  void add_block(const Seen& seen) const;
  void add_curve(const Seen& seen) const;
  void add_paper_curve(const Seen& seen) const;
  std::size_t cell_row(ShareSums& sums, std::int64_t row) const;
  void add_cells(const Seen& seen) const;
  double mass(const MapRow& row, std::int64_t begin, std::int64_t end) const;
  void close_rows(HeadRecord& record) const;
  ShareSums total(std::int64_t head) const;
  MapLevel finest(std::int64_t head) const;

  Measure measure_;
  std::int64_t top_;  // keys kept of a row, 1 at least
  std::int64_t rows_per_share_;
  std::int64_t shares_;
  Grid grid_;
  std::vector<HeadRecord> heads_;
  std::vector<ShareSums> sums_;  // (heads, shares)
};

// The levels above the finest one, each of two by two cells of the one below.
void add_levels(const MapShape& shape, std::vector<MapLevel>& pyramid);

}  // namespace fovea::inspection

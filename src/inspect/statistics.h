#pragma once

#include <optional>
#include <vector>

#include "fovea/inspect.h"
#include "inspect/sink.h"

namespace fovea::inspection {

// What is measured, and of what.
struct Measure {
  MapShape shape;
  bool causal = false;
  std::int64_t block = 64;  // of the block-diagonal share
  InspectOptions options;
};

// A level of the pyramid while it is summed up.
struct Grid {
  std::int64_t rows = 0, columns = 0, cell_rows = 1, cell_keys = 1;

  static Grid over(const MapShape& shape, std::int64_t cells);
};

// Sums of one head over the rows of one share.
struct ShareSums {
  std::vector<double> received, distance, curve;
  // Rows of the grid from first_cell on, as many as have been needed, by columns.
  std::int64_t first_cell = -1;
  std::vector<double> cells;
  std::vector<float> largest;
  double block = 0.0;
};

// Adds up rows of maps.
class MapStatistics final : public MapSink {
 public:
  explicit MapStatistics(const Measure& measure);

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
  std::int64_t position_of(std::int64_t row) const;
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

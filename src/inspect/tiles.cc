#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "inspect/row_math.h"
#include "inspect/statistics.h"
#include "inspect/tile_math.h"

// What is told from facts of rows and tiles of weights, where an engine gives them: weights are never negative, and
// shares of their row as they are.
namespace fovea::inspection {
namespace {

// a / b upwards, for b > 0.
std::int64_t round_up(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
std::int64_t down(std::int64_t a, std::int64_t b) { return -round_up(-a, b); }

// Lanes of one key: [0, inside) are after, [inside, before) inside, [before, ...) before.
struct SideLanes {
  std::int64_t inside, before;
};

}  // namespace

// The window of the nearest keys of row c grows on both sides in turn until one of them ends. Key j comes while it does
// (inside), or later: behind the row (after), where j > 2 c, or before it, where j < 2 c - n.
enum class MapStatistics::Side : std::uint8_t { inside, after, before };

struct MapStatistics::Part {
  std::int64_t head;
  TileView view;
  std::int64_t queries;   // lanes that are rows
  std::int64_t row, key;  // the first of each, in the sequence
  std::int64_t step;      // between rows, and between keys

  std::int64_t row_at(std::int64_t lane) const { return row + lane * step; }
  std::int64_t key_at(std::int64_t j) const { return key + j * step; }
  std::int64_t last_row() const { return row_at(queries - 1); }
  std::int64_t last_key() const { return key_at(view.keys - 1); }
  // The first lane from whose row on `row` is reached; the same of keys.
  std::int64_t lane_of(std::int64_t wanted) const {
    return std::clamp<std::int64_t>(round_up(wanted - row, step), 0, queries);
  }
  std::int64_t index_of(std::int64_t wanted) const {
    return std::clamp<std::int64_t>(round_up(wanted - key, step), 0, view.keys);
  }

  SideLanes sides(std::int64_t j, std::int64_t shift, std::int64_t n) const {
    const std::int64_t twice = 2 * (row + shift), at = key_at(j);
    const std::int64_t inside = std::clamp<std::int64_t>(round_up(at - twice, 2 * step), 0, queries);
    return {inside, std::clamp<std::int64_t>(down(at + n - twice, 2 * step) + 1, inside, queries)};
  }
  // That of all pairs, if they have one in common.
  std::optional<Side> side(std::int64_t shift, std::int64_t n) const {
    const std::int64_t first = 2 * (row + shift), last = 2 * (last_row() + shift);
    if (last_key() <= first && key >= last - n) return Side::inside;
    if (key > last) return Side::after;
    if (last_key() < first - n) return Side::before;
    return {};
  }
};

void MapStatistics::take(const RowFacts& facts) {
  const std::vector<float> entropy = facts.statistics.entropy.to_vector<float>(), lse = facts.lse.to_vector<float>();
  const std::vector<float> scores = facts.statistics.top_scores.to_vector<float>();
  const std::vector<std::int32_t> keys = facts.statistics.top_keys.to_vector<std::int32_t>();
  for (HeadRecord& head : heads_)
    for (std::int64_t i = 0; i < measure_.shape.n_q; ++i) {
      const std::size_t from = size(i * measure_.shape.heads + head.head), to = size(i);
      const bool has_mass = std::isfinite(entropy[from]);
      head.entropy[to] = has_mass ? entropy[from] : 0.0f;
      head.row_sum[to] = has_mass ? 1.0f : lse[from] == -INFINITY ? 0.0f : std::numeric_limits<float>::quiet_NaN();
      head.max_logit[to] = scores[from * size(top_)];
      for (std::size_t t = 0; t < size(top_); ++t) {
        const std::size_t at = from * size(top_) + t, kept = to * size(top_) + t;
        head.top_keys[kept] = keys[at];
        head.top_weights[kept] = keys[at] < 0 ? 0.0f : std::exp(scores[at] - lse[from]);
      }
    }
}

void MapStatistics::visit(const tile::WeightTile& tile, std::int64_t share) {
  ShareSums& sums = sums_of(tile.head, share);
  if (sums.beyond.empty()) {
    sums.beyond.assign(size(measure_.shape.n_k + 1), 0.0);
    sums.beyond_distance.assign(sums.distance.size(), 0.0);
  }
  const tile::Piece& piece = *tile.piece;
  for (std::int64_t j = 0; j < tile.keys; j += kTileSide)
    for (std::int64_t l = 0; l < tile.queries; l += kTileSide)
      add_part({.head = tile.head,
                .view = {tile.weights + j * tile.lanes + l, std::min(kTileSide, tile.keys - j),
                         std::min(kTileSide, tile.lanes - l), tile.lanes},
                .queries = std::min(kTileSide, tile.queries - l),
                .row = piece.query_row(tile.query + l),
                .key = piece.key_row(tile.key + j),
                .step = piece.q_step},
               sums);
}

void MapStatistics::add_part(const Part& part, ShareSums& sums) const {
  if (const auto side = part.side(measure_.shift(), measure_.shape.n_k))
    add_masses(part, *side, sums);
  else
    add_sides(part, sums);
  add_block(part, sums);
  add_cells(part, sums);
}

// Each side by itself, with zeros in place of the others.
void MapStatistics::add_sides(const Part& part, ShareSums& sums) const {
  alignas(64) float own[kTileSide * kTileSide];
  for (const Side side : {Side::inside, Side::after, Side::before}) {
    std::fill_n(own, kTileSide * kTileSide, 0.0f);
    for (std::int64_t j = 0; j < part.view.keys; ++j) {
      const auto [inside, before] = part.sides(j, measure_.shift(), measure_.shape.n_k);
      const std::int64_t begin = side == Side::after ? 0 : side == Side::inside ? inside : before;
      const std::int64_t end = side == Side::after ? inside : side == Side::inside ? before : part.queries;
      std::copy_n(part.view.weights + j * part.view.stride + begin, end - begin, own + j * kTileSide + begin);
    }
    Part some = part;
    some.view.weights = own;
    some.view.stride = kTileSide;
    add_masses(some, side, sums);
  }
}

void MapStatistics::add_masses(const Part& part, Side side, ShareSums& sums) const {
  const auto [heads, n_q, n_k] = measure_.shape;
  const std::int64_t keys = part.view.keys;
  TileSums tile;
  sum_tile(part.view, tile);
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int64_t key = part.key_at(j);
    const auto mass = static_cast<double>(tile.by_key[j]);
    sums.received[size(key)] += mass;
    if (side == Side::after) sums.beyond[size(key + 1)] += mass;
    if (side == Side::before) sums.beyond[size(n_k - key)] += mass;
  }
  std::vector<double>& distance = side == Side::inside ? sums.distance : sums.beyond_distance;
  for (std::int64_t u = 0; u < keys - 1 + part.queries; ++u)
    distance[size(part.key - part.row + (keys - 1 - u) * part.step + n_q - 1)] +=
        static_cast<double>(tile.by_diagonal[u]);
}

void MapStatistics::add_block(const Part& part, ShareSums& sums) const {
  const std::int64_t width = measure_.block, shift = measure_.shift();
  for (std::int64_t lane = 0; lane < part.queries;) {
    const std::int64_t begin = std::max<std::int64_t>(0, part.row_at(lane) + shift) / width * width;
    const std::int64_t last = part.lane_of(begin + width - shift);  // of the lanes in this block, past the end
    const std::int64_t first_key = part.index_of(begin), last_key = part.index_of(begin + width);
    for (std::int64_t j = first_key; j < last_key; ++j)
      sums.block += sum_signed(part.view.weights + j * part.view.stride + lane, last - lane);
    lane = last;
  }
}

void MapStatistics::add_cells(const Part& part, ShareSums& sums) const {
  if (grid_.rows == 0) return;
  const std::int64_t first = part.row / grid_.cell_rows, last = part.last_row() / grid_.cell_rows;
  cell_row(sums, last);
  cell_row(sums, first);
  LaneSums lanes;
  for (std::int64_t j = 0, end = 0; j < part.view.keys; j = end) {
    const std::int64_t column = part.key_at(j) / grid_.cell_keys;
    end = part.index_of((column + 1) * grid_.cell_keys);
    sum_lanes({part.view.weights + j * part.view.stride, end - j, part.view.lanes, part.view.stride}, lanes);
    for (std::int64_t r = first, lane = 0; r <= last; ++r) {
      const std::size_t at = size((r - sums.first_cell) * grid_.columns + column);
      for (const std::int64_t next = part.lane_of((r + 1) * grid_.cell_rows); lane < next; ++lane) {
        sums.cells[at] += static_cast<double>(lanes.sum[lane]);
        sums.largest[at] = std::max(sums.largest[at], lanes.largest[lane]);
      }
    }
  }
}

// A key at distance t is in windows of 2 t + 1 keys or more behind its row, of -2 t before it.
void MapStatistics::add_windows(const ShareSums& part, ShareSums& all) const {
  const std::int64_t n = measure_.shape.n_k;
  std::vector<double> masses = part.beyond;
  for (std::int64_t i = 0; i < std::ssize(part.distance); ++i) {
    const std::int64_t t = i - (measure_.shape.n_q - 1) - measure_.shift(), window = t >= 0 ? 2 * t + 1 : -2 * t;
    masses[size(std::min(window, n))] += part.distance[size(i)];
    all.distance[size(i)] += part.beyond_distance[size(i)];
  }
  double sum = 0.0;
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < measure_.options.curve_points; ++p) {
    for (const std::int64_t window = std::min(measure_.window(p), n); at <= window; ++at) sum += masses[size(at)];
    all.curve[size(p)] += sum;
  }
}

}  // namespace fovea::inspection

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel.h"
#include "inspect/statistics.h"
#include "inspect/verdict.h"

// From sums to records.
namespace fovea::inspection {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

template <class T>
void add_to(std::vector<T>& sums, const std::vector<T>& more) {
  if (sums.empty()) sums.resize(more.size(), T{0});
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

// How many rows or keys a cell of a level has: the last may be smaller.
double extent(std::int64_t cell, std::int64_t of, std::int64_t n) {
  return static_cast<double>(std::min(n, (cell + 1) * of) - cell * of);
}

}  // namespace

ShareSums MapStatistics::total(std::int64_t head) const {
  ShareSums all;
  all.received.resize(count(measure_.shape.n_k), 0.0);
  all.distance.resize(count(std::max<std::int64_t>(0, measure_.shape.n_q + measure_.shape.n_k - 1)), 0.0);
  all.curve.resize(count(measure_.options.curve_points), 0.0);
  for (std::int64_t share = 0; share < shares_; ++share) {
    const ShareSums& part = sums_[count(head * shares_ + share)];
    if (part.received.empty()) continue;
    add_to(all.received, part.received);
    add_to(all.distance, part.distance);
    if (part.beyond.empty())
      add_to(all.curve, part.curve);
    else
      add_windows(part, all);
    all.block += part.block;
  }
  return all;
}

MapSpec MapStatistics::spec() const {
  MapSpec spec{.shape = measure_.shape,
               .causal = measure_.causal,
               .top = top_,
               .block = measure_.block,
               .windows = {},
               .grid_rows = grid_.rows,
               .grid_columns = grid_.columns,
               .cell_rows = grid_.cell_rows,
               .cell_keys = grid_.cell_keys};
  for (std::int64_t p = 0; p < measure_.options.curve_points; ++p)
    spec.windows.push_back(std::min(measure_.window(p), measure_.shape.n_k));
  return spec;
}

void MapStatistics::take(MapSums sums) {
  const auto [heads, n_q, n_k] = measure_.shape;
  // Those of a head, of lists that have them one after the other.
  const auto part = [heads = heads]<class T>(const std::vector<T>& all, std::int64_t head) {
    const std::int64_t each = std::ssize(all) / heads;
    return std::vector<T>(all.begin() + head * each, all.begin() + (head + 1) * each);
  };
  for (HeadRecord& head : heads_) {
    const std::int64_t h = head.head;
    head.entropy = part(sums.entropy, h);
    head.row_sum = part(sums.row_sum, h);
    head.max_logit = part(sums.max_logit, h);
    head.top_keys = part(sums.top_keys, h);
    head.top_weights = part(sums.top_weights, h);
    ShareSums& to = sums_[count(h * shares_)];
    to.received = part(sums.received, h);
    to.distance = part(sums.distance, h);
    to.curve = part(sums.windows, h);
    to.block = to.curve.back();
    to.curve.pop_back();
    std::partial_sum(to.curve.begin(), to.curve.end(), to.curve.begin());
    to.first_cell = 0;
    to.cells = part(sums.cells, h);
    to.largest = part(sums.largest, h);
  }
}

// Rows without a key, and rows that are no numbers, have no statistics.
void MapStatistics::close_rows(HeadRecord& record) const {
  const std::int64_t n = measure_.shape.n_q;
  record.effective_keys.resize(count(n));
  record.largest.resize(count(n));
  record.largest_key.resize(count(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::size_t row = count(i), first = count(i * top_);
    if (!std::isfinite(record.row_sum[row])) ++record.bad_rows;
    const bool has_mass = std::isfinite(record.row_sum[row]) && record.row_sum[row] > 0.0f;
    if (!has_mass) record.entropy[row] = kNotANumber;
    record.effective_keys[row] = has_mass ? std::exp(record.entropy[row]) : kNotANumber;
    record.largest_key[row] = record.top_keys[first];
    record.largest[row] = has_mass ? record.top_weights[first] : kNotANumber;
  }
}

MapLevel MapStatistics::finest(std::int64_t head) const {
  MapLevel level{grid_.rows, grid_.columns, grid_.cell_rows, grid_.cell_keys, {}, {}};
  std::vector<double> sums(count(grid_.rows * grid_.columns), 0.0);
  level.largest.assign(sums.size(), 0.0f);
  for (std::int64_t share = 0; share < shares_; ++share) {
    const ShareSums& part = sums_[count(head * shares_ + share)];
    const std::size_t first = count(std::max<std::int64_t>(0, part.first_cell) * grid_.columns);
    for (std::size_t i = 0; i < part.cells.size(); ++i) {
      sums[first + i] += part.cells[i];
      level.largest[first + i] = std::max(level.largest[first + i], part.largest[i]);
    }
  }
  level.mean.resize(sums.size());
  for (std::int64_t r = 0; r < grid_.rows; ++r)
    for (std::int64_t c = 0; c < grid_.columns; ++c) {
      const std::size_t i = count(r * grid_.columns + c);
      level.mean[i] = static_cast<float>(
          sums[i] / (extent(r, grid_.cell_rows, measure_.shape.n_q) * extent(c, grid_.cell_keys, measure_.shape.n_k)));
    }
  return level;
}

void add_levels(const MapShape& shape, std::vector<MapLevel>& pyramid) {
  while (pyramid.back().rows > 1 || pyramid.back().columns > 1) {
    const MapLevel& below = pyramid.back();
    MapLevel level{(below.rows + 1) / 2, (below.columns + 1) / 2, 2 * below.cell_rows, 2 * below.cell_keys, {}, {}};
    level.mean.assign(count(level.rows * level.columns), 0.0f);
    level.largest.assign(level.mean.size(), 0.0f);
    std::vector<double> sums(level.mean.size(), 0.0);
    for (std::int64_t r = 0; r < below.rows; ++r)
      for (std::int64_t c = 0; c < below.columns; ++c) {
        const std::size_t from = count(r * below.columns + c), to = count(r / 2 * level.columns + c / 2);
        sums[to] += static_cast<double>(below.mean[from]) * extent(r, below.cell_rows, shape.n_q) *
                    extent(c, below.cell_keys, shape.n_k);
        level.largest[to] = std::max(level.largest[to], below.largest[from]);
      }
    for (std::int64_t r = 0; r < level.rows; ++r)
      for (std::int64_t c = 0; c < level.columns; ++c) {
        const std::size_t at = count(r * level.columns + c);
        level.mean[at] = static_cast<float>(
            sums[at] / (extent(r, level.cell_rows, shape.n_q) * extent(c, level.cell_keys, shape.n_k)));
      }
    pyramid.push_back(std::move(level));
  }
}

std::vector<HeadRecord> MapStatistics::finish(const Context& context, bool has_scores) {
  parallel_for(context, measure_.shape.heads, [&](std::int64_t h) {
    HeadRecord& record = heads_[count(h)];
    ShareSums all = total(h);
    close_rows(record);
    if (!has_scores) record.max_logit.clear();
    double rows = 0.0;
    for (const float sum : record.row_sum) rows += std::isfinite(sum) && sum > 0.0f ? 1.0 : 0.0;
    const double each = rows > 0.0 ? 1.0 / rows : 0.0;
    for (double& x : all.distance) x *= each;
    for (double& x : all.curve) x *= each;
    record.received = std::move(all.received);
    record.distance = std::move(all.distance);
    record.curve = std::move(all.curve);
    record.verdict = verdict_of(measure_.shape, measure_.causal, record);
    record.verdict.block_width = measure_.block;
    set_blocks(measure_.shape, measure_.causal, record, all.block * each);
    classify(record.verdict, {measure_.shape, rows > 0.0});
    for (const double x : record.curve) record.area += x / static_cast<double>(record.curve.size());
    if (grid_.rows > 0) {
      record.pyramid.push_back(finest(h));
      add_levels(measure_.shape, record.pyramid);
    }
    if (measure_.options.top < 1) {
      record.top = 0;
      record.top_keys.clear();
      record.top_weights.clear();
    }
  });
  return std::move(heads_);
}

}  // namespace fovea::inspection

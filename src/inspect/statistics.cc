#include "inspect/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "inspect/row_math.h"
#include "inspect/windows.h"

namespace fovea::inspection {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// So many shares that threads have work, so few that their sums are small beside the rows: 8 n numbers of each.
std::int64_t shares_of(std::int64_t n) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 19) / std::max<std::int64_t>(n, 1), 8, 32);
}

}  // namespace

std::int64_t Measure::window(std::int64_t p) const {
  return std::max<std::int64_t>(1, up((p + 1) * shape.n_k, options.curve_points));
}

Grid Grid::over(const MapShape& shape, std::int64_t cells) {
  Grid grid;
  if (cells <= 0 || shape.n_q == 0 || shape.n_k == 0) return grid;
  grid.cell_rows = up(shape.n_q, cells);
  grid.cell_keys = up(shape.n_k, cells);
  grid.rows = up(shape.n_q, grid.cell_rows);
  grid.columns = up(shape.n_k, grid.cell_keys);
  return grid;
}

MapStatistics::MapStatistics(const Measure& measure)
    : measure_(measure),
      top_(std::clamp<std::int64_t>(measure.options.top, 1, std::max<std::int64_t>(1, measure.shape.n_k))),
      grid_(Grid::over(measure.shape, measure.options.cells)) {
  const MapShape& shape = measure_.shape;
  rows_per_share_ = up(std::max<std::int64_t>(1, shape.n_q), shares_of(shape.n_q));
  shares_ = std::max<std::int64_t>(1, up(shape.n_q, rows_per_share_));
  heads_.resize(size(shape.heads));
  sums_.resize(size(shape.heads * shares_));
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    HeadRecord& record = heads_[size(h)];
    record.head = h;
    record.top = top_;
    record.entropy.assign(size(shape.n_q), 0.0f);
    record.row_sum.assign(size(shape.n_q), 0.0f);
    record.max_logit.assign(size(shape.n_q), -INFINITY);
    record.top_keys.assign(size(shape.n_q * top_), -1);
    record.top_weights.assign(size(shape.n_q * top_), 0.0f);
  }
}

ShareSums& MapStatistics::sums_of(std::int64_t head, std::int64_t share) {
  const MapShape& shape = measure_.shape;
  ShareSums& sums = sums_[size(head * shares_ + share)];
  if (!sums.received.empty()) return sums;
  sums.received.assign(size(shape.n_k), 0.0);
  sums.distance.assign(size(shape.n_q + shape.n_k - 1), 0.0);
  sums.curve.assign(size(measure_.options.curve_points), 0.0);
  return sums;
}

// The sum of a row's magnitudes, if they are numbers.
bool MapStatistics::settle(const MapRow& row, HeadRecord& head, double& sum) {
  sum = row.row_sum;
  if (sum < 0.0) {
    sum = 0.0;
    const float* w = row.weights;
    sum = sum_magnitudes(w, row.keys()) * std::abs(row.factor);
  }
  float& kept = head.row_sum[size(row.row)];
  kept += static_cast<float>(sum);
  return std::isfinite(sum) && sum > 0.0;
}

void MapStatistics::take(const MapRow& row, std::int64_t share) {
  HeadRecord& head = heads_[size(row.head)];
  float& logit = head.max_logit[size(row.row)];
  logit = std::isnan(row.max_logit) ? row.max_logit : std::max(logit, row.max_logit);
  double sum = 0.0;
  const bool has_mass = settle(row, head, sum);
  ShareSums& sums = sums_of(row.head, share);
  if (!has_mass) {
    if (!std::isfinite(sum)) head.entropy[size(row.row)] = kNone;
    return;
  }
  const std::int64_t position = place_among_keys(row.row, measure_.shape.n_q, measure_.shape.n_k, measure_.causal);
  add({row, sums, head, position, share, row.keys()}, row.part ? row.factor : row.factor / sum);
}

void MapStatistics::add(const Seen& seen, double factor) {
  const MapRow& row = seen.row;
  const auto& shape = measure_.shape;
  std::vector<float> maxima(size(up(seen.keys, kMaximumOf) + std::ssize(row.runs)));
  std::vector<float> spread;  // received, where keys are not neighbours
  const bool known = row.entropy >= 0.0;
  double logarithms = 0.0;
  std::int64_t at = 0, first = 0;
  for (const KeyRun& run : row.runs) {
    const std::int64_t key = row.first_key + run.begin * row.step;
    const bool dense = row.step == 1;
    double* received = dense ? &seen.sums.received[size(key)] : nullptr;
    double* distance = dense ? &seen.sums.distance[size(key - row.row + shape.n_q - 1)] : nullptr;
    float* w = row.weights + at;
    logarithms +=
        add_row(w, run.count, static_cast<float>(factor), {received, distance, maxima.data() + first, !known});
    if (!dense)
      for (std::int64_t j = 0; j < run.count; ++j) {
        const std::int64_t there = key + j * row.step;
        seen.sums.received[size(there)] += std::abs(static_cast<double>(w[j]));
        seen.sums.distance[size(there - row.row + shape.n_q - 1)] += std::abs(static_cast<double>(w[j]));
      }
    at += run.count;
    first += up(run.count, kMaximumOf);
  }
  seen.head.entropy[size(row.row)] += static_cast<float>(known ? row.entropy : std::max(0.0, -logarithms));
  keep_top(seen, maxima);
  add_block(seen);
  if (measure_.options.paper_curve)
    add_paper_curve(seen);
  else
    add_curve(seen);
  add_cells(seen);
}

// Chunks whose largest is no larger than the least that is kept are passed over.
void MapStatistics::keep_top(const Seen& seen, std::span<const float> maxima) const {
  const MapRow& row = seen.row;
  std::int32_t* keys = &seen.head.top_keys[size(row.row * top_)];
  float* weights = &seen.head.top_weights[size(row.row * top_)];
  const auto least = [&] { return keys[top_ - 1] < 0 ? 0.0f : std::abs(weights[top_ - 1]); };
  const auto enter = [&](std::int32_t key, float weight) {
    std::int64_t i = top_ - 1;
    for (; i > 0 && (keys[i - 1] < 0 || std::abs(weights[i - 1]) < std::abs(weight)); --i) {
      keys[i] = keys[i - 1];
      weights[i] = weights[i - 1];
    }
    keys[i] = key;
    weights[i] = weight;
  };
  std::int64_t at = 0, chunk = 0;
  for (const KeyRun& run : row.runs) {
    for (std::int64_t begin = 0; begin < run.count; begin += kMaximumOf, ++chunk) {
      if (!(maxima[size(chunk)] > least())) continue;
      for (std::int64_t j = begin; j < std::min(run.count, begin + kMaximumOf); ++j)
        if (std::abs(row.weights[at + j]) > least())
          enter(static_cast<std::int32_t>(row.first_key + (run.begin + j) * row.step), row.weights[at + j]);
    }
    at += run.count;
  }
}

// Sum of the shares on keys [begin, end) of the sequence.
double MapStatistics::mass(const MapRow& row, std::int64_t begin, std::int64_t end) const {
  double sum = 0.0;
  std::int64_t at = 0;
  const auto local = [&](std::int64_t key) { return key <= row.first_key ? 0 : up(key - row.first_key, row.step); };
  const std::int64_t from = local(begin), to = local(end);
  for (const KeyRun& run : row.runs) {
    const std::int64_t a = std::max(from, run.begin), b = std::min(to, run.begin + run.count);
    if (a < b) sum += sum_magnitudes(row.weights + at + a - run.begin, b - a);
    at += run.count;
  }
  return sum;
}

void MapStatistics::add_block(const Seen& seen) const {
  const std::int64_t first = seen.position / measure_.block * measure_.block;
  seen.sums.block += mass(seen.row, first, first + measure_.block);
}

void MapStatistics::add_curve(const Seen& seen) const {
  const std::int64_t n = measure_.shape.n_k, points = measure_.options.curve_points;
  KeyWindow had{seen.position, seen.position};
  double sum = 0.0;
  for (std::int64_t p = 0; p < points; ++p) {
    const KeyWindow now = window_of(seen.position, measure_.window(p), n);
    sum += mass(seen.row, now.begin, had.begin) + mass(seen.row, had.end, now.end);
    seen.sums.curve[size(p)] += sum;
    had = now;
  }
}

// As printed: left first; the width counts both ends, which are outside; key 0 counts as an end, so that nobody reaches
// it; row 0 goes on with the last key, once; and what is not reached is n.
void MapStatistics::add_paper_curve(const Seen& seen) const {
  const std::int64_t n = measure_.shape.n_k, points = measure_.options.curve_points, c = seen.position;
  const auto weight = [&](std::int64_t key) { return mass(seen.row, key, key + 1); };
  std::int64_t left = c - 1, right = c + 1, p = 1, width = 1;
  double sum = weight(c);
  const auto reach = [&] {
    while (p < points && sum >= static_cast<double>(p) / static_cast<double>(points - 1))
      seen.sums.curve[size(p++)] += static_cast<double>(width) / static_cast<double>(n);
  };
  reach();
  for (bool turn = true; p < points && width < n; turn = !turn) {
    const bool may_left = left > 0 || left == -1, may_right = right < n;
    if (!may_left && !may_right) break;
    if (may_left && (turn || !may_right)) {
      sum += weight(left < 0 ? n - 1 : left);
      --left;
    } else {
      sum += weight(right++);
    }
    width = right - left + 1;
    reach();
  }
  for (; p < points; ++p) seen.sums.curve[size(p)] += 1.0;
}

// Where a row of the grid begins in a share's cells. Blocks of queries may begin in one share and end in the next.
std::size_t MapStatistics::cell_row(ShareSums& sums, std::int64_t row) const {
  const std::size_t columns = size(grid_.columns);
  if (sums.first_cell < 0) sums.first_cell = row;
  if (row < sums.first_cell) {
    const std::size_t more = size(sums.first_cell - row) * columns;
    sums.cells.insert(sums.cells.begin(), more, 0.0);
    sums.largest.insert(sums.largest.begin(), more, 0.0f);
    sums.first_cell = row;
  }
  const std::size_t begin = size(row - sums.first_cell) * columns;
  if (sums.cells.size() < begin + columns) {
    sums.cells.resize(begin + columns, 0.0);
    sums.largest.resize(begin + columns, 0.0f);
  }
  return begin;
}

void MapStatistics::add_cells(const Seen& seen) const {
  if (grid_.rows == 0) return;
  const MapRow& row = seen.row;
  const std::size_t begin = cell_row(seen.sums, row.row / grid_.cell_rows);
  double* cells = &seen.sums.cells[begin];
  float* largest = &seen.sums.largest[begin];
  std::int64_t at = 0;
  for (const KeyRun& run : row.runs) {
    const std::int64_t step = row.step, first = row.first_key + run.begin * step;
    for (std::int64_t j = 0; j < run.count;) {
      const std::int64_t cell = (first + j * step) / grid_.cell_keys;
      const std::int64_t end = std::min(run.count, std::max(j + 1, up((cell + 1) * grid_.cell_keys - first, step)));
      cells[cell] += sum_signed(row.weights + at + j, end - j);
      largest[cell] = std::max(largest[cell], largest_magnitude(row.weights + at + j, end - j));
      j = end;
    }
    at += run.count;
  }
}

}  // namespace fovea::inspection

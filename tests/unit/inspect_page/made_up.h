#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/inspect.h"

// Records as inspect() makes them, of maps that are written down here.
namespace fovea::made_up {

using Weight = std::function<double(std::int64_t row, std::int64_t key)>;

// The next level of a pyramid: cells of twice as many tokens.
inline MapLevel halved(const MapLevel& below, std::int64_t n_q, std::int64_t n_k) {
  MapLevel out{(below.rows + 1) / 2, (below.columns + 1) / 2, 2 * below.cell_rows, 2 * below.cell_keys, {}, {}};
  for (std::int64_t r = 0; r < out.rows; ++r)
    for (std::int64_t c = 0; c < out.columns; ++c) {
      double sum = 0.0, count = 0.0, most = 0.0;
      for (std::int64_t y = 2 * r; y < std::min(2 * r + 2, below.rows); ++y)
        for (std::int64_t x = 2 * c; x < std::min(2 * c + 2, below.columns); ++x) {
          const auto at = static_cast<std::size_t>(y * below.columns + x);
          const auto size = static_cast<double>(std::min(below.cell_rows, n_q - y * below.cell_rows) *
                                                std::min(below.cell_keys, n_k - x * below.cell_keys));
          sum += size * static_cast<double>(below.mean[at]);
          count += size;
          const auto large = static_cast<double>(below.largest[at]);
          if (!(large <= most)) most = large;
        }
      out.mean.push_back(static_cast<float>(sum / count));
      out.largest.push_back(static_cast<float>(most));
    }
  return out;
}

inline void add_row(HeadRecord& head, const std::vector<double>& row, std::int64_t i, std::int64_t n_q) {
  const auto n_k = static_cast<std::int64_t>(row.size());
  double entropy = 0.0;
  bool bad = false;
  for (const double w : row) {
    bad = bad || !std::isfinite(w);
    if (w != 0.0) entropy -= std::abs(w) * std::log(std::abs(w));
  }
  if (bad) ++head.bad_rows;
  std::vector<std::int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size_of = [&](std::int32_t k) {
    return std::isfinite(row[static_cast<std::size_t>(k)]) ? std::abs(row[static_cast<std::size_t>(k)]) : -1.0;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return size_of(a) > size_of(b); });
  const auto first = static_cast<std::size_t>(order.front());
  head.entropy.push_back(static_cast<float>(entropy));
  head.effective_keys.push_back(static_cast<float>(std::exp(entropy)));
  head.largest.push_back(bad ? std::nanf("") : static_cast<float>(std::abs(row[first])));
  head.largest_key.push_back(bad ? -1 : order.front());
  head.max_logit.push_back(static_cast<float>(std::log(std::abs(row[first]))));
  head.row_sum.push_back(bad ? std::nanf("") : 1.0f);
  for (std::int64_t k = 0; k < head.top; ++k) {
    const bool there = !bad && k < n_k && row[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] != 0.0;
    head.top_keys.push_back(there ? order[static_cast<std::size_t>(k)] : -1);
    head.top_weights.push_back(
        there ? static_cast<float>(row[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])]) : 0.0f);
  }
  for (std::int64_t j = 0; j < n_k; ++j) {
    const double mass = std::abs(row[static_cast<std::size_t>(j)]);
    if (bad) continue;
    head.received[static_cast<std::size_t>(j)] += mass;
    head.distance[static_cast<std::size_t>(j - i - (n_k - n_q) + n_q - 1)] += mass / static_cast<double>(n_q);
  }
}

inline HeadRecord head(std::int64_t n_q, std::int64_t n_k, const Weight& weight, HeadVerdict verdict,
                       std::int64_t number = 0) {
  HeadRecord out;
  out.head = number;
  out.top = std::min<std::int64_t>(8, n_k);
  out.received.assign(static_cast<std::size_t>(n_k), 0.0);
  out.distance.assign(static_cast<std::size_t>(n_q + n_k - 1), 0.0);
  MapLevel finest{n_q, n_k, 1, 1, {}, {}};
  std::vector<double> curve(100, 0.0);
  for (std::int64_t i = 0; i < n_q; ++i) {
    std::vector<double> row;
    double sum = 0.0;
    for (std::int64_t j = 0; j < n_k; ++j) sum += std::abs(row.emplace_back(weight(i, j)));
    for (double& w : row) w = sum > 0.0 || std::isnan(sum) ? w / sum : 0.0;
    for (const double w : row) {
      finest.mean.push_back(static_cast<float>(w));
      finest.largest.push_back(static_cast<float>(std::abs(w)));
    }
    add_row(out, row, i, n_q);
    for (std::size_t p = 0; p < curve.size(); ++p)  // a window around the row
      for (std::int64_t j = 0; j < n_k; ++j)
        if (2.0 * static_cast<double>(std::abs(j - i)) <=
            static_cast<double>(p + 1) / 100.0 * 2.0 * static_cast<double>(n_k))
          curve[p] += std::abs(row[static_cast<std::size_t>(j)]) / static_cast<double>(n_q);
  }
  out.curve = curve;
  out.area = std::accumulate(curve.begin(), curve.end(), 0.0) / 100.0;
  out.pyramid.push_back(std::move(finest));
  while (out.pyramid.back().rows * out.pyramid.back().columns > 1)
    out.pyramid.push_back(halved(out.pyramid.back(), n_q, n_k));
  out.verdict = verdict;
  return out;
}

inline double local(std::int64_t i, std::int64_t j) {
  return std::exp(-0.5 * static_cast<double>((i - j) * (i - j)) / 4.0);
}
inline double previous(std::int64_t i, std::int64_t j) {
  return j == std::max<std::int64_t>(0, i - 1) ? 1.0 : 0.01 / (1.0 + static_cast<double>(std::abs(i - j)));
}
inline double sink(std::int64_t, std::int64_t j) { return j == 0 ? 20.0 : 0.05; }
inline double wavy(std::int64_t i, std::int64_t j) {
  return std::exp(1.5 * std::sin(0.37 * static_cast<double>(i * 7 % 31) + 0.9 * static_cast<double>(j * 5 % 23)));
}

inline LayerRecord layer(std::int64_t n, std::string place, std::string mechanism, bool causal) {
  const auto masked = [causal](Weight w) -> Weight {
    return [causal, w](std::int64_t i, std::int64_t j) { return causal && j > i ? 0.0 : w(i, j); };
  };
  LayerRecord out;
  out.place = std::move(place);
  out.mechanism = std::move(mechanism);
  out.map = {MapKind::weights, "weights after the softmax", true};
  out.causal = causal;
  out.n_q = out.n_k = n;
  out.heads.push_back(
      head(n, n, masked(local), {.head_class = HeadClass::local, .near_mass = 0.9, .deviation = 2, .entropy = 0.4}, 0));
  out.heads.push_back(head(n, n, masked(previous),
                           {.head_class = HeadClass::previous, .offset = -1, .offset_rate = 0.97, .entropy = 0.2}, 1));
  out.heads.push_back(
      head(n, n, masked(sink),
           {.head_class = HeadClass::broadcast, .broadcast_key = 0, .broadcast_mass = 0.8, .entropy = 0.3}, 2));
  out.heads.push_back(
      head(n, n, masked(wavy), {.head_class = HeadClass::diffuse, .near_mass = 0.1, .entropy = 0.9}, 3));
  return out;
}

}  // namespace fovea::made_up

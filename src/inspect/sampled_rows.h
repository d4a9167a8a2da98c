#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "inspect/row_math.h"
#include "inspect/sink.h"

namespace fovea::inspection {

// Rows [begin, end) of the maps of all heads, dense; keys that a row does not read have 0.
class SampledRows final : public MapSink {
 public:
  SampledRows(const MapShape& shape, std::int64_t begin, std::int64_t end)
      : shape_(shape),
        begin_(begin),
        count_(end - begin),
        weights_(size(shape.heads * count_ * shape.n_k), 0.0f),
        factors_(size(shape.heads * count_), 1.0),
        logits_(factors_.size(), -INFINITY) {}

  void take(const MapRow& row, std::int64_t) override {
    if (row.row < begin_ || row.row >= begin_ + count_) return;
    const std::size_t at = index(row.head, row.row - begin_);
    factors_[at] = row.factor;
    logits_[at] = std::max(logits_[at], static_cast<double>(row.max_logit));
    float* to = &weights_[at * size(shape_.n_k)];
    const float* w = row.weights;
    for (const KeyRun& run : row.runs)
      for (std::int64_t j = 0; j < run.count; ++j, ++w)
        to[row.first_key + (run.begin + j) * row.step] += static_cast<float>(static_cast<double>(*w) * row.factor);
  }

  // Row `row` of these, from 0: its weights, signed, not divided by anything; what they were multiplied with before;
  // the largest score, where the map has scores.
  std::span<const float> weights(std::int64_t head, std::int64_t row) const {
    return std::span(weights_).subspan(index(head, row) * size(shape_.n_k), size(shape_.n_k));
  }
  double factor(std::int64_t head, std::int64_t row) const { return factors_[index(head, row)]; }
  double max_logit(std::int64_t head, std::int64_t row) const { return logits_[index(head, row)]; }

 private:
  std::size_t index(std::int64_t head, std::int64_t row) const { return size(head * count_ + row); }

  MapShape shape_;
  std::int64_t begin_, count_;
  std::vector<float> weights_;  // (heads, rows, n_k)
  std::vector<double> factors_, logits_;
};

// So many blocks of so many rows, evenly along a sequence; all of a sequence that has no more rows.
struct RowBlocks {
  std::int64_t blocks, rows;

  template <class F>
  void each(std::int64_t n, F&& f) const {
    const bool all = n <= blocks * rows;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t begin = all ? block * rows : block * n / blocks;
      if (begin < n) f(begin, std::min(n, begin + rows));
    }
  }
};

}  // namespace fovea::inspection

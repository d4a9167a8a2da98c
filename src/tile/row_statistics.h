#pragma once

#include "tile/launch.h"

// Forward that tells what the weights of its rows are like: the same bits of o and the log-sum-exp, on the CPU alone.
namespace fovea::tile {

// Of softmax weights, before dropout. A row without a key, or with a score that is no number, has the entropy NaN and
// no keys. Rows that belong to no piece are not written.
struct RowStatistics {
  std::int64_t top = 1;  // keys kept of a row
  Out entropy;           // (batch, n_q, heads), dim 1: -sum w ln w, as wide as the log-sum-exp
  Out top_keys;          // (batch, n_q, heads), dim `top`: rows of k, int32, the largest score first; -1: none left
  Out top_scores;        // the same of their scores, as wide as the log-sum-exp; -inf: none left
};
void forward_measured(const Context& context, const Problem& problem, const Forward& io,
                      const RowStatistics& statistics);

// The same with tensors of the host.
struct StatisticsTensors {
  Tensor entropy;               // (b, n_q, heads)
  Tensor top_keys, top_scores;  // (b, n_q, heads, top)
};
void forward_measured(const Context& context, const Work& work, const ForwardTensors& io,
                      const StatisticsTensors& statistics);

}  // namespace fovea::tile

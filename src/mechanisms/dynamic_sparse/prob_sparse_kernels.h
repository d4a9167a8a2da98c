#pragma once

#include "fovea/tensor.h"
#include "mechanisms/dynamic_sparse/prob_sparse.h"

// ProbSparse's choice of queries. Rows of q (b, n_q, heads, d) stand on the last of k (b, n_k, kv_heads, d), both with
// a dense last axis.
namespace fovea::kernels {

// out (b, n_q, heads), wide, for the queries from `first` on, as query_measures() says.
struct MeasureQueries {
  Tensor q, k, out;
  std::int64_t first;
  KeySample sample;
  double scale;
};
template <Device>
void measure_queries(const Context& context, const MeasureQueries& io);

// chosen i32 (b, n, heads), from the front: the rows from `first` on whose measure (b, n, heads) is among the largest
// kept_of(i + 1) of the i + 1 up to it; -1 behind them. most, an i32 scalar: how many the fullest head has.
struct ChooseSoFar {
  Tensor measures, chosen, most;
  std::int64_t first, factor;
};
template <Device>
void choose_so_far(const Context& context, const ChooseSoFar& io);

// bias (b, heads, m, n_k), wide: -inf where the key is later than row[i] + shift, of rows i32 (b, m, heads); else 0.
struct HideLater {
  Tensor rows, bias;
  std::int64_t shift;
};
template <Device>
void hide_later(const Context& context, const HideLater& io);

}  // namespace fovea::kernels

// Decay inside a chunk: the weights it gives to queries, keys, pairs and the state, compiled once per instruction set.
//
// Every weight is a product of the decays e^g of single steps, never a quotient: none exceeds 1, and a step of any
// strength, even one that forgets everything, is just a factor.

#if defined(FOVEA_SCAN_DECAY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SCAN_DECAY_INL_H_
#undef FOVEA_SCAN_DECAY_INL_H_
#else
#define FOVEA_SCAN_DECAY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "policy/math.h"
#include "scan/cpu/buffers.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// The weights of a chunk of c rows. A query reads the state with the decay of all steps up to its own, a key enters the
// next state with that of all steps behind its own, and the state itself goes on with all of them. Each weight is one
// number or, with Decay::channel, a row of d_k numbers.
template <class R>
struct Weights {
  Decay kind = Decay::none;
  const R *queries = nullptr, *keys = nullptr;  // weight i at [i * step]
  std::size_t step = 1;
  const R* state = nullptr;
  const R* pairs = nullptr;  // between rows i and l, in either order: pairs[i * pair_step + l]; not for channels, ...
  std::ptrdiff_t pair_step = 0;
  Matrix<const R> steps = {};  // ... which have the decays themselves here: [block + 1][d_k], 1 behind the last row

  bool none() const { return kind == Decay::none; }
  bool by_channel() const { return kind == Decay::channel; }
};

// Decay::head: all weights are powers, middle[t] = middle[-t] = decay^t for t <= chunk, filled once for all chunks.
template <class R>
void fill_powers(double log_decay, std::int64_t chunk, R* table) {
  R* middle = table + chunk;
  for (std::int64_t t = 0; t <= chunk; ++t)
    middle[t] = middle[-t] = static_cast<R>(std::exp(static_cast<double>(t) * log_decay));
}
template <class R>
Weights<R> head_weights(const R* middle, std::size_t c) {
  return {.kind = Decay::head,
          .queries = middle + 1,
          .keys = middle - (c - 1),
          .state = middle + c,
          .pairs = middle,
          .pair_step = -1};
}

// Row i of `to` is e^g of row i of `from`, columns padded with ones.
template <class R>
HWY_NOINLINE void load_decays(const R* HWY_RESTRICT from, std::int64_t stride, std::size_t rows, std::size_t columns,
                              Matrix<R> to) {
  for (std::size_t i = 0; i < rows; ++i, from += stride) {
    R* HWY_RESTRICT row = to.row(i);
    for (std::size_t a = 0; a < columns; ++a) row[a] = math::exp(from[a]);
    for (std::size_t a = columns; a < to.ld; ++a) row[a] = 1;
  }
}

// Row i of `queries` is the product of rows 0 .. i of `steps`, row i of `keys` that of rows i + 1 .. c - 1.
template <class R>
HWY_NOINLINE void multiply_up(Matrix<const R> steps, std::size_t c, Matrix<R> queries, Matrix<R> keys) {
  const std::size_t columns = steps.ld;
  for (std::size_t a = 0; a < columns; ++a) queries.data[a] = steps.data[a];
  for (std::size_t i = 1; i < c; ++i) {
    R* HWY_RESTRICT row = queries.row(i);
    const R *HWY_RESTRICT before = queries.row(i - 1), *HWY_RESTRICT step = steps.row(i);
    for (std::size_t a = 0; a < columns; ++a) row[a] = before[a] * step[a];
  }
  for (std::size_t a = 0; a < columns; ++a) keys.row(c - 1)[a] = 1;
  for (std::size_t i = c - 1; i > 0; --i) {
    R* HWY_RESTRICT row = keys.row(i - 1);
    const R *HWY_RESTRICT behind = keys.row(i), *HWY_RESTRICT step = steps.row(i);
    for (std::size_t a = 0; a < columns; ++a) row[a] = behind[a] * step[a];
  }
}

// pairs[i][l] is the product of the steps behind the earlier of the two rows, up to the later one.
template <class R>
HWY_NOINLINE void multiply_pairs(const R* HWY_RESTRICT steps, std::size_t c, Matrix<R> pairs) {
  for (std::size_t i = 0; i < c; ++i) {
    R* HWY_RESTRICT row = pairs.row(i);
    const R* HWY_RESTRICT before = i == 0 ? row : pairs.row(i - 1);
    for (std::size_t l = 0; l < i; ++l) row[l] = before[l] * steps[i];
    row[i] = 1;
  }
  for (std::size_t i = c - 1; i > 0; --i) {
    R* HWY_RESTRICT row = pairs.row(i - 1);
    const R* HWY_RESTRICT behind = pairs.row(i);
    for (std::size_t l = i; l < c; ++l) row[l] = behind[l] * steps[i];
  }
}

// Decay::step. `from`: g of the rows, `stride` apart.
template <class R>
Weights<R> step_weights(const R* from, std::int64_t stride, std::size_t c, const DecayBuffers<R>& buffers) {
  R *steps = buffers.steps.data, *queries = buffers.queries.data, *keys = buffers.keys.data;
  for (std::size_t i = 0; i < c; ++i) keys[i] = from[static_cast<std::int64_t>(i) * stride];
  load_decays<R>(keys, 0, 1, c, {steps, c});
  multiply_up<R>({steps, 1}, c, {queries, 1}, {keys, 1});
  multiply_pairs<R>(steps, c, buffers.pairs);
  return {.kind = Decay::step,
          .queries = queries,
          .keys = keys,
          .state = queries + c - 1,
          .pairs = buffers.pairs.data,
          .pair_step = static_cast<std::ptrdiff_t>(buffers.pairs.ld)};
}

// Decay::channel.
template <class R>
Weights<R> channel_weights(const R* from, std::int64_t stride, const Extent& size, const DecayBuffers<R>& buffers) {
  const std::size_t c = size.m;
  load_decays<R>(from, stride, c, size.n, buffers.steps);
  std::fill(buffers.steps.row(c), buffers.steps.row(kPad<R> + 1), R{1});
  multiply_up<R>(buffers.steps, c, buffers.queries, buffers.keys);
  return {.kind = Decay::channel,
          .queries = buffers.queries.data,
          .keys = buffers.keys.data,
          .step = buffers.queries.ld,
          .state = buffers.queries.row(c - 1),
          .steps = buffers.steps};
}

// row i *= weight i, all columns alike or each with its own.
template <class R>
HWY_NOINLINE void scale_rows(Matrix<R> x, std::size_t rows, std::size_t columns, const R* weight, std::size_t step) {
  for (std::size_t i = 0; i < rows; ++i) {
    const R w = weight[step * i];
    R* HWY_RESTRICT row = x.row(i);
    for (std::size_t a = 0; a < columns; ++a) row[a] *= w;
  }
}
template <class R>
HWY_NOINLINE void scale_entries(Matrix<R> x, std::size_t rows, std::size_t columns, const R* weight, std::size_t step) {
  for (std::size_t i = 0; i < rows; ++i) {
    const R* HWY_RESTRICT w = weight + step * i;
    R* HWY_RESTRICT row = x.row(i);
    for (std::size_t a = 0; a < columns; ++a) row[a] *= w[a];
  }
}
// lane l *= weight[l]
template <class R>
HWY_NOINLINE void scale_lanes(Matrix<R> x, std::size_t rows, std::size_t lanes, const R* HWY_RESTRICT weight) {
  for (std::size_t i = 0; i < rows; ++i) {
    R* HWY_RESTRICT row = x.row(i);
    for (std::size_t l = 0; l < lanes; ++l) row[l] *= weight[l];
  }
}

// Rows of features, or of their gradients, weighed like the queries (keys) of the chunk.
template <class R>
void weigh_queries(Matrix<R> rows, std::size_t c, std::size_t d_k, const Weights<R>& weights) {
  if (weights.by_channel()) return scale_entries(rows, c, d_k, weights.queries, weights.step);
  if (!weights.none()) scale_rows(rows, c, d_k, weights.queries, weights.step);
}
template <class R>
void weigh_keys(Matrix<R> rows, std::size_t c, std::size_t d_k, const Weights<R>& weights) {
  if (weights.by_channel()) return scale_entries(rows, c, d_k, weights.keys, weights.step);
  if (!weights.none()) scale_rows(rows, c, d_k, weights.keys, weights.step);
}
// What has been read from the state for a query (key) in each lane; channels must have been weighed before.
template <class R>
void weigh_query_lanes(Matrix<R> x, std::size_t rows, std::size_t c, const Weights<R>& weights) {
  if (!weights.none() && !weights.by_channel()) scale_lanes(x, rows, c, weights.queries);
}
template <class R>
void weigh_key_lanes(Matrix<R> x, std::size_t rows, std::size_t c, const Weights<R>& weights) {
  if (!weights.none() && !weights.by_channel()) scale_lanes(x, rows, c, weights.keys);
}
template <class R>
void weigh_state(Matrix<R> state, std::size_t rows, const Weights<R>& weights) {
  if (weights.by_channel()) return scale_entries(state, rows, state.ld, weights.state, 0);
  if (!weights.none()) scale_rows(state, rows, state.ld, weights.state, 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SCAN_DECAY_INL_H_

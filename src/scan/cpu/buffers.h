#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/scratch.h"
#include "scan/cpu/kernels.h"
#include "simd/matrix.h"
#include "simd/product.h"

// Sizes and scratch that drivers and kernels agree on.
namespace fovea::scan::cpu {

template <class R>
struct StateLayout {
  explicit StateLayout(const Problem& problem)
      : heads(static_cast<std::size_t>(problem.heads)),
        kv_heads(static_cast<std::size_t>(problem.kv_heads)),
        group(heads / kv_heads),
        d_k(static_cast<std::size_t>(problem.d_k)),
        d_v(static_cast<std::size_t>(problem.d_v)),
        width(static_cast<std::size_t>(state_width(problem))),
        ld_k(padded<R>(d_k)),
        ld_v(padded<R>(width)) {}

  std::size_t state_size() const { return ld_v * ld_k; }               // of one kv head
  std::size_t states_size() const { return kv_heads * state_size(); }  // of a piece

  std::size_t heads, kv_heads, group, d_k, d_v, width;
  std::size_t ld_k, ld_v;  // row lengths of features and of values in scratch
};

// Parts of a thread's scratch, padded to whole vectors.
template <class R>
class Parts {
 public:
  explicit Parts(Room room = {}) : carver_(room) {}

  R* take(std::size_t count, guard::Place where = guard::Place::current()) {
    return carver_.take<R>(padded<R>(count), where);
  }
  Matrix<R> matrix(std::size_t rows, std::size_t columns, guard::Place where = guard::Place::current()) {
    return {take(padded<R>(rows) * padded<R>(columns), where), padded<R>(columns)};
  }
  std::size_t bytes() const { return carver_.used(); }

 private:
  Carver carver_;
};

// Sizes of a product: m x n, summed over k.
struct Extent {
  std::size_t m, n, k;
};

// The weights that decay gives to a chunk; see Weights. Columns: 1, or d_k.
template <class R>
struct DecayBuffers {
  DecayBuffers() = default;
  DecayBuffers(const Problem& problem, std::int64_t chunk, Parts<R>& parts) {
    const auto c = static_cast<std::size_t>(chunk), kv_heads = static_cast<std::size_t>(problem.kv_heads);
    const bool by_channel = problem.decay == Decay::channel;
    const auto rows = [&](std::size_t count) {
      return by_channel ? parts.matrix(count, static_cast<std::size_t>(problem.d_k)) : parts.matrix(1, count);
    };
    power_size = padded<R>(2 * c + 1);
    if (problem.decay == Decay::head) powers = parts.take(kv_heads * power_size);
    if (problem.decay == Decay::step) pairs = parts.matrix(c, c);
    if (problem.decay != Decay::step && !by_channel) return;
    steps = rows(std::max(c, kPad<R> + 1));
    queries = rows(c);
    keys = rows(c);
  }

  R* powers = nullptr;  // [kv_heads] tables of power_size
  std::size_t power_size = 0;
  Matrix<R> pairs;                 // [c][c]
  Matrix<R> steps, queries, keys;  // [c][columns], one row for a single column
};

// One thread's scratch for one (chunk, head); every kernel uses some of it. c: rows of a chunk, w: width.
template <class R>
struct Buffers {
  Buffers(const Problem& problem, std::int64_t chunk, std::size_t held_count, Parts<R>& parts) {
    const StateLayout<R> layout(problem);
    const auto c = static_cast<std::size_t>(chunk);
    const std::size_t d_k = layout.d_k, w = layout.width;
    k = parts.matrix(c, d_k);
    v = parts.matrix(c, w);
    q = parts.matrix(c, d_k);
    g = parts.matrix(c, w);
    k_across = parts.matrix(d_k, c);
    v_across = parts.matrix(w, c);
    q_across = parts.matrix(d_k, c);
    y_across = parts.matrix(w, c);
    scores = parts.matrix(c, c);
    d_scores = parts.matrix(c, c);
    d_rows = parts.matrix(c, d_k);
    y = parts.matrix(c, w);
    factor = parts.take(c);
    held_size = padded<R>(c) * padded<R>(w);
    held = parts.take(held_count * held_size);
    squares = parts.take(held_count * padded<R>(c));
    decay = DecayBuffers<R>(problem, chunk, parts);
  }

  Matrix<R> k, q;                // [c][d_k] features
  Matrix<R> v, g;                // [c][w] values with their ones; gradient of y
  Matrix<R> k_across, q_across;  // [d_k][c] features, a row in each lane
  Matrix<R> v_across, y_across;  // [w][c]
  Matrix<R> scores, d_scores;    // [c][c]
  Matrix<R> d_rows;              // [c][d_k] gradient of features
  Matrix<R> y;                   // [c][w]
  R* factor;                     // [c] what a row of y is multiplied with
  R* held;                       // unfinished outputs of several heads, held_size each
  R* squares;                    // their sums of squares, a row in each lane
  DecayBuffers<R> decay;
  std::size_t held_size;
};

// The norm over all heads holds back the heads of a chunk.
inline std::size_t held_count(const Problem& problem) {
  return problem.rms_norm ? static_cast<std::size_t>(problem.heads) : 0;
}
template <class R>
std::size_t scratch_bytes(const Problem& problem, std::int64_t chunk) {
  Parts<R> parts;
  Buffers<R>(problem, chunk, held_count(problem), parts);
  return parts.bytes();
}

// Scratch of the step form: one row of everything.
template <class R>
struct StepBuffers {
  StepBuffers(const Problem& problem, Parts<R>& parts) {
    const StateLayout<R> layout(problem);
    k = {parts.take(layout.ld_k), layout.ld_k};
    v = {parts.take(layout.ld_v), layout.ld_v};
    q = {parts.take(layout.group * layout.ld_k), layout.ld_k};
    y = {parts.take(layout.heads * layout.ld_v), layout.ld_v};
    zero = parts.take(layout.ld_v);
    unused = parts.take(layout.ld_v);
    decay = parts.take(layout.ld_k);
  }

  Matrix<R> k, v;  // [1][d_k], [1][width]
  Matrix<R> q;     // [group][d_k]
  Matrix<R> y;     // [heads][width]
  R* zero;         // [width] stands for a state that is not given ...
  R* unused;       // ... and for one that is not wanted
  R* decay;        // [d_k]
};
template <class R>
std::size_t step_scratch_bytes(const Problem& problem) {
  Parts<R> parts;
  StepBuffers<R>(problem, parts);
  return parts.bytes();
}

// One row of a state in the step form.
template <class R>
struct StepRow {
  R k, q, decay;
  const R* before;
  R* after;
};

}  // namespace fovea::scan::cpu

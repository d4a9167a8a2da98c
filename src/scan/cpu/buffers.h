#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "scan/cpu/kernels.h"
#include "simd/matrix.h"
#include "simd/product.h"

// Sizes and scratch that drivers and kernels agree on.
namespace fovea::scan::cpu {

template <class R>
struct Layout {
  explicit Layout(const Problem& problem)
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

// Hands out parts of a thread's scratch, each on its own cache lines. Started from null it only counts.
template <class R>
class Carver {
 public:
  explicit Carver(R* data = nullptr) : data_(data) {}

  R* take(std::size_t count) {
    R* taken = data_ == nullptr ? nullptr : data_ + used_;
    used_ += padded<R>(count);
    return taken;
  }
  Matrix<R> matrix(std::size_t rows, std::size_t columns) {
    return {take(padded<R>(rows) * padded<R>(columns)), padded<R>(columns)};
  }
  std::size_t used() const { return used_; }

 private:
  R* data_;
  std::size_t used_ = 0;
};

// Sizes of a product: m x n, summed over k.
struct Extent {
  std::size_t m, n, k;
};

// The weights that decay gives to a chunk; see Weights. Columns: 1, or d_k.
template <class R>
struct DecayBuffers {
  DecayBuffers() = default;
  DecayBuffers(const Problem& problem, std::int64_t chunk, Carver<R>& carver) {
    const auto c = static_cast<std::size_t>(chunk), kv_heads = static_cast<std::size_t>(problem.kv_heads);
    const bool by_channel = problem.decay == Decay::channel;
    const auto rows = [&](std::size_t count) {
      return by_channel ? carver.matrix(count, static_cast<std::size_t>(problem.d_k)) : carver.matrix(1, count);
    };
    power_size = padded<R>(2 * c + 1);
    if (problem.decay == Decay::head) powers = carver.take(kv_heads * power_size);
    if (problem.decay == Decay::step) pairs = carver.matrix(c, c);
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
  Buffers(const Problem& problem, std::int64_t chunk, std::size_t held_count, Carver<R>& carver) {
    const Layout<R> layout(problem);
    const auto c = static_cast<std::size_t>(chunk);
    const std::size_t d_k = layout.d_k, w = layout.width;
    k = carver.matrix(c, d_k);
    v = carver.matrix(c, w);
    q = carver.matrix(c, d_k);
    g = carver.matrix(c, w);
    k_across = carver.matrix(d_k, c);
    v_across = carver.matrix(w, c);
    q_across = carver.matrix(d_k, c);
    y_across = carver.matrix(w, c);
    scores = carver.matrix(c, c);
    d_scores = carver.matrix(c, c);
    d_rows = carver.matrix(c, d_k);
    y = carver.matrix(c, w);
    factor = carver.take(c);
    held_size = padded<R>(c) * padded<R>(w);
    held = carver.take(held_count * held_size);
    squares = carver.take(held_count * padded<R>(c));
    decay = DecayBuffers<R>(problem, chunk, carver);
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
std::size_t scratch_size(const Problem& problem, std::int64_t chunk) {
  Carver<R> carver;
  Buffers<R>(problem, chunk, held_count(problem), carver);
  return carver.used();
}

// Scratch of the step form: one row of everything.
template <class R>
struct StepBuffers {
  StepBuffers(const Problem& problem, Carver<R>& carver) {
    const Layout<R> layout(problem);
    k = {carver.take(layout.ld_k), layout.ld_k};
    v = {carver.take(layout.ld_v), layout.ld_v};
    q = {carver.take(layout.group * layout.ld_k), layout.ld_k};
    y = {carver.take(layout.heads * layout.ld_v), layout.ld_v};
    zero = carver.take(layout.ld_v);
    unused = carver.take(layout.ld_v);
    decay = carver.take(layout.ld_k);
  }

  Matrix<R> k, v;  // [1][d_k], [1][width]
  Matrix<R> q;     // [group][d_k]
  Matrix<R> y;     // [heads][width]
  R* zero;         // [width] stands for a state that is not given ...
  R* unused;       // ... and for one that is not wanted
  R* decay;        // [d_k]
};
template <class R>
std::size_t step_scratch_size(const Problem& problem) {
  Carver<R> carver;
  StepBuffers<R>(problem, carver);
  return carver.used();
}

// One row of a state in the step form.
template <class R>
struct StepRow {
  R k, q, decay;
  const R* before;
  R* after;
};

}  // namespace fovea::scan::cpu

// What the kernels of the linear engine share: a task with its scratch, and the walk over chunks and heads.

#if defined(FOVEA_SCAN_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SCAN_PASS_INL_H_
#undef FOVEA_SCAN_PASS_INL_H_
#else
#define FOVEA_SCAN_PASS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "scan/cpu/chunk-inl.h"
#include "scan/cpu/decayed-inl.h"
#include "scan/cpu/rows-inl.h"
#include "scan/feature_source.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// Base of the passes: the task and the buffers of its thread.
template <class R>
struct Pass : StateLayout<R> {
  explicit Pass(const Task<R>& t) : Pass(t, Parts<R>(t.scratch)) {}

  Place key_place(std::int64_t row, std::int64_t kv_head) const { return {piece.batch, piece.k0 + row, kv_head}; }
  Place query_place(std::int64_t row, std::int64_t head) const { return {piece.batch, piece.q0 + row, head}; }
  Rows<const void*> in(const In& array, const Place& at, std::size_t dim) const {
    return rows_at(problem.dtype, array, at, dim);
  }
  Rows<void*> out(const Out& array, const Place& at, std::size_t dim) const {
    return rows_at(problem.dtype, array, at, dim);
  }
  Rows<void*> outputs(const Out& o, const Place& at) const { return rows_at(problem.output_type(), o, at, this->d_v); }
  // Stores c rows of o, and what they lose.
  void store_outputs(const Forward& io, Matrix<const R> y, const R* factor, const Place& at, std::size_t c) const {
    store<R>(y, factor, c, outputs(io.o, at));
    if (io.rest.data != nullptr) store_rest<R>(y, factor, c, outputs(io.rest, at));
  }
  std::int64_t heads_per_kv() const { return static_cast<std::int64_t>(this->group); }

  Matrix<R> state_of(R* states, std::int64_t kv_head) const {
    return {states + static_cast<std::size_t>(kv_head) * this->state_size(), this->ld_k};
  }
  Matrix<const R> state_of(const R* states, std::int64_t kv_head) const {
    return {states + static_cast<std::size_t>(kv_head) * this->state_size(), this->ld_k};
  }
  // The same memory as [d_k][d_v].
  Matrix<const R> matrix_of(const R* matrices, std::int64_t kv_head) const {
    return {matrices + static_cast<std::size_t>(kv_head) * this->state_size(), this->ld_v};
  }

  // The decays of a chunk; c rows from `row` on.
  void load_decay(const In& log_decay, std::int64_t row, std::int64_t kv_head, std::size_t c) {
    if (problem.decay == Decay::none) return;
    if (problem.decay == Decay::head) {
      weights = head_weights<R>(powers_of(kv_head) + task.chunk, c);
      return;
    }
    const auto from = rows_at(dtype_of<R>, log_decay, key_place(row, kv_head), 1);
    const R* g = static_cast<const R*>(from.data);
    weights = problem.decay == Decay::step ? step_weights<R>(g, from.stride, c, buffers.decay)
                                           : channel_weights<R>(g, from.stride, {c, this->d_k, 0}, buffers.decay);
  }

  void fetch(const In& array, const Place& at, std::size_t dim, std::size_t rows) { fetch(in(array, at, dim), rows); }
  void fetch(const Rows<const void*>& range, std::size_t rows) {
    const std::size_t bytes = size_of(range.dtype);
    next.add(range.data, range.dim * bytes, static_cast<std::size_t>(range.stride) * bytes, rows);
  }
  // What a gradient of o is loaded from.
  void fetch_gradient(const Backward& io, const Place& at, std::size_t rows) {
    fetch(rows_at(problem.output_type(), io.d_o, at, this->d_v), rows);
    if (statistic_columns(problem) == 0) return;
    fetch(rows_at(problem.output_type(), io.o, at, this->d_v), rows);
    if (io.rest.data != nullptr) fetch(rows_at(problem.output_type(), io.rest, at, this->d_v), rows);
  }

  // The features of c rows of q or k, in `to` unless their source has them.
  Matrix<const R> features(const In& array, const FeatureSource* source, const Place& at, std::size_t c, Matrix<R> to) {
    if constexpr (std::is_same_v<R, float>)
      if (source != nullptr) return source->make({at.batch, at.row, at.head, c}, to, task.made, &next);
    load<R>(in(array, at, this->d_k), problem.map, c, to);
    return to;
  }
  void fetch_features(const In& array, const FeatureSource* source, const Place& at, std::size_t c) {
    if (source != nullptr) return source->fetch({at.batch, at.row, at.head, c}, next);
    fetch(array, at, this->d_k, c);
  }
  // Gives their gradient, which is used up, to the rows they were made of.
  void store_features_vjp(Matrix<R> gradient, Matrix<const R> of, const FeatureSource* source, const Place& at,
                          std::size_t c, const Out& array) {
    if constexpr (std::is_same_v<R, float>)
      if (source != nullptr) return source->pull({at.batch, at.row, at.head, c}, of, gradient, task.made, &next);
    store_vjp<R>(gradient, of, problem.map, c, out(array, at, this->d_k));
  }
  // Register tiles of the products that make or take the features of a full chunk.
  std::size_t source_tiles(const FeatureSource* source) const {
    return source == nullptr ? 0 : tiles<R>(rows(), this->d_k);
  }

  Matrix<const R> load_keys(const Keys& keys, std::int64_t row, std::int64_t kv_head, std::size_t c) {
    const Place at = key_place(row, kv_head);
    load_values<R>(in(keys.v, at, this->d_v), this->width, c, buffers.v);
    load_decay(keys.log_decay, row, kv_head, c);
    return features(keys.k, keys.k_source, at, c, buffers.k);
  }
  void fetch_keys(const Keys& keys, std::int64_t row, std::int64_t kv_head, std::size_t c) {
    fetch_features(keys.k, keys.k_source, key_place(row, kv_head), c);
    fetch(keys.v, key_place(row, kv_head), this->d_v, c);
    if (problem.decay != Decay::channel) return;
    const auto from = rows_at(dtype_of<R>, keys.log_decay, key_place(row, kv_head), this->d_k);
    next.add(from.data, this->d_k * sizeof(R), static_cast<std::size_t>(from.stride) * sizeof(R), c);
  }
  // state = decay state + v^T k with the decay of each key. buffers.k is used up.
  void update_state(Matrix<R> state, std::size_t c) {
    weigh_keys(buffers.k, c, this->d_k, weights);
    weigh_state(state, this->width, weights);
    add_to_state(buffers.k, state, c);
  }
  // state += v^T k
  void add_to_state(Matrix<const R> k, Matrix<R> state, std::size_t c) {
    times<Order::columns, StartAdd, R>(buffers.v, k, state, {this->width, this->d_k, c}, &next);
  }

  // Scores of a chunk, decayed and cleared outside of their triangle: `rows` against the `across` of the given kind. By
  // channel, `weighted` becomes `across` as it meets the state; otherwise it is left alone.
  template <Lanes kLanes>
  void score_pairs(Matrix<const R> rows, Matrix<const R> across, Matrix<R> weighted, std::size_t c) {
    if (weights.by_channel())
      return score_decayed<kLanes, R>({rows, across, weights.steps, buffers.scores, weighted, this->d_k});
    score<kLanes, R>(rows, across, buffers.scores, {c, c, this->d_k}, &next);
    mask<kLanes>(buffers.scores, c, weights);
  }

  std::size_t rows() const { return static_cast<std::size_t>(task.chunk); }  // of a full chunk

  const Task<R>& task;
  const Problem& problem;
  const Piece& piece;
  Buffers<R> buffers;
  Weights<R> weights;  // of the chunk at hand
  Prefetch next;       // rows of the next (chunk, head)

 private:
  R* powers_of(std::int64_t kv_head) const {
    return buffers.decay.powers + static_cast<std::size_t>(kv_head) * buffers.decay.power_size;
  }

  Pass(const Task<R>& t, Parts<R> parts)
      : StateLayout<R>(*t.problem),
        task(t),
        problem(*t.problem),
        piece(*t.piece),
        buffers(problem, t.chunk, held_count(problem), parts) {
    for (std::int64_t g = t.first; g < t.last && problem.decay == Decay::head; ++g)
      fill_powers(problem.log_decay[g], t.chunk, powers_of(g));
  }
};

// Visits `count` chunks and in each the kv heads [first, last), announcing every next visit to `fetch` first: rows are
// then read whole, and are on their way while the present ones are multiplied, in about `calls` register tiles.
template <class R, class Fetch, class Visit>
void walk(Pass<R>& pass, std::int64_t count, std::size_t calls, const Fetch& fetch, const Visit& visit) {
  const std::int64_t first = pass.task.first, last = pass.task.last;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t g = first; g < last; ++g) {
      pass.next.clear();
      if (g + 1 < last) {
        fetch(i, g + 1);
      } else if (i + 1 < count) {
        fetch(i + 1, first);
      }
      pass.next.spread(calls);
      visit(i, g);
    }
}

template <class R>
void add_keys(const Task<R>& task, const Keys& keys, R* states) {
  Pass<R> pass(task);
  const Blocks blocks = {task.begin, task.end, task.chunk};
  walk(
      pass, blocks.count(), tiles<R>(pass.width, pass.d_k) + pass.source_tiles(keys.k_source),
      [&](std::int64_t i, std::int64_t g) { pass.fetch_keys(keys, blocks.row(i), g, blocks.rows(i)); },
      [&](std::int64_t i, std::int64_t g) {
        const Matrix<const R> k = pass.load_keys(keys, blocks.row(i), g, blocks.rows(i));
        const Matrix<R> state = pass.state_of(states, g);
        keys.k_source == nullptr ? pass.update_state(state, blocks.rows(i))
                                 : pass.add_to_state(k, state, blocks.rows(i));
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SCAN_PASS_INL_H_

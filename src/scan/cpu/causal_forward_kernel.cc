#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/causal_forward_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "scan/cpu/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// Outputs of a run of positions, chunk by chunk, with one query in each lane:
//
//   y^T = S^T f(q)^T + v^T scores^T,   scores^T = f(k) f(q)^T where key <= query,   then   S^T += v^T f(k)
//
// Statistics over a row are then plain vertical sums, and the denominator is one more row of v^T. With the norm a
// chunk stays in cache until the squares of all heads are known.
template <class R>
struct CausalForward : Pass<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::task, Pass<R>::next;

  CausalForward(const Task<R>& t, const Forward& forward, R* s, const NormExchange<R>& x)
      : Pass<R>(t),
        io(forward),
        keys{forward.k, forward.v, forward.log_decay},
        states(s),
        exchange(x),
        chunks(*t.piece, t.begin, t.end, t.chunk) {}

  void run() {
    const std::size_t c = this->rows(), width = this->width;
    walk(
        *this, chunks.count(), this->group * (tiles<R>(c, c) + 2 * tiles<R>(width, c)) + tiles<R>(width, this->d_k),
        [&](std::int64_t i, std::int64_t g) { fetch_head(chunks[i], g); },
        [&](std::int64_t i, std::int64_t g) {
          kv_head(chunks[i], i, g);
          if (problem.rms_norm && g + 1 == task.last && chunks[i].has_queries) end_chunk(chunks[i], i);
        });
  }

  void fetch_head(const Chunk& chunk, std::int64_t g) {
    this->fetch_keys(keys, chunk.key, g, chunk.rows);
    for (std::int64_t h = g * this->heads_per_kv(); chunk.has_queries && h < (g + 1) * this->heads_per_kv(); ++h)
      this->fetch(io.q, this->query_place(chunk.query, h), this->d_k, chunk.rows);
  }

  void kv_head(const Chunk& chunk, std::int64_t i, std::int64_t g) {
    const Matrix<R> state = this->state_of(states, g);
    this->load_keys(keys, chunk.key, g, chunk.rows);
    for (std::int64_t h = g * this->heads_per_kv(); chunk.has_queries && h < (g + 1) * this->heads_per_kv(); ++h) {
      const Matrix<R> y = problem.rms_norm && !shared() ? held(h) : buffers.y_across;
      head(chunk, state, h, y);
      if (problem.rms_norm) {
        sum_squares(y, this->d_v, squares(i, h));
        if (shared()) leave(y, chunk, h);
      } else {
        finish(chunk, h, y);
      }
    }
    this->update_state(state, chunk.rows);
  }

  void head(const Chunk& chunk, Matrix<const R> state, std::int64_t h, Matrix<R> y) {
    const std::size_t c = chunk.rows, d_k = this->d_k, width = this->width;
    load<R>(this->in(io.q, this->query_place(chunk.query, h), d_k), problem.map, c, buffers.q);
    simd::transpose<R>(buffers.q, buffers.q_across, c, d_k);
    this->template score_pairs<Lanes::queries>(buffers.k, buffers.q_across, buffers.q_across, c);
    times<Order::rows, StartZero, R>(state, buffers.q_across, y, {width, c, d_k}, &next);
    weigh_query_lanes(y, width, c, this->weights);
    read_across<Lanes::queries, R>(buffers.v, buffers.scores, y, {width, c, c}, &next);
  }

  void finish(const Chunk& chunk, std::int64_t h, Matrix<const R> y) {
    const bool divided = problem.denominator != Denominator::none;
    const Place at = this->query_place(chunk.query, h);
    if (divided) {
      R* d = buffers.y.row(0);  // not in use before write() below
      for (std::size_t l = 0; l < chunk.rows; ++l) d[l] = denominator(problem, y.row(this->d_v)[l]);
      for (std::size_t l = 0; l < chunk.rows; ++l) buffers.factor[l] = d[l] == 0 ? R{0} : 1 / d[l];
      store_statistic(problem, io.statistic, at, d, chunk.rows);
    }
    write(y, divided ? buffers.factor : nullptr, at, chunk.rows);
  }

  void write(Matrix<const R> y, const R* factor, const Place& at, std::size_t c) {
    simd::transpose<R>(y, buffers.y, this->d_v, c);
    this->store_outputs(io, buffers.y, factor, at, c);
  }

  static void sum_squares(Matrix<const R> y, std::size_t d_v, R* HWY_RESTRICT sums);

  bool shared() const { return exchange.lanes > 1; }

  // Where a head's rows wait, and their sums of squares: here, or where the other tasks can see them.
  Matrix<R> held(std::int64_t h) const {
    return {buffers.held + static_cast<std::size_t>(h) * buffers.held_size, buffers.y_across.ld};
  }
  R* squares(std::int64_t i, std::int64_t h) const {
    if (!shared()) return buffers.squares + static_cast<std::size_t>(h) * buffers.scores.ld;
    return exchange.squares + static_cast<std::size_t>(i * problem.heads + h) * buffers.scores.ld;
  }
  Rows<void*> left(const Chunk& chunk, std::int64_t h) const {
    return rows_at(dtype_of<R>, exchange.rows, {0, chunk.query, h}, this->d_v);
  }
  void leave(Matrix<const R> y, const Chunk& chunk, std::int64_t h) {
    simd::transpose<R>(y, buffers.y, this->d_v, chunk.rows);
    store_as<R, R>(buffers.y, nullptr, chunk.rows, left(chunk, h));
  }

  // All heads of this task are through with a chunk: scales and stores it if no other task has heads to come.
  void end_chunk(const Chunk& chunk, std::int64_t i) {
    if (shared() && exchange.arrived[i].fetch_add(1, std::memory_order_acq_rel) + 1 < exchange.lanes) return;
    for (std::size_t l = 0; l < chunk.rows; ++l) {
      R sum = 0;
      for (std::int64_t h = 0; h < problem.heads; ++h) sum += squares(i, h)[l];
      buffers.factor[l] = norm_factor(problem, sum);
    }
    store_statistic(problem, io.statistic, this->query_place(chunk.query, 0), buffers.factor, chunk.rows);
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      const Place at = this->query_place(chunk.query, h);
      if (!shared()) {
        write(held(h), buffers.factor, at, chunk.rows);
      } else {
        const Rows<void*> rows = left(chunk, h);
        const Matrix<const R> y = {static_cast<const R*>(rows.data), static_cast<std::size_t>(rows.stride)};
        const Rows<void*> to = this->outputs(io.o, at);
        // Not past the caches, where these rows mostly are: that would take 1.2 times as long for the whole pass.
        if (io.rest.data != nullptr) store_rest<R>(y, buffers.factor, chunk.rows, this->outputs(io.rest, at));
        visit_element<R>(to.dtype, [&]<class T>() { store_as<R, T>(y, buffers.factor, chunk.rows, to); });
      }
    }
  }

  const Forward& io;
  Keys keys;
  R* states;
  const NormExchange<R>& exchange;
  Chunks chunks;
};

template <class R>
void CausalForward<R>::sum_squares(Matrix<const R> y, std::size_t d_v, R* HWY_RESTRICT sums) {
  const std::size_t lanes = y.ld;
  for (std::size_t l = 0; l < lanes; ++l) sums[l] = 0;
  for (std::size_t a = 0; a < d_v; ++a) {
    const R* HWY_RESTRICT row = y.row(a);
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += row[l] * row[l];
  }
}

template <class R>
void causal_forward(const Task<R>& task, const Forward& io, R* states, const NormExchange<R>& exchange) {
  CausalForward<R>(task, io, states, exchange).run();
}

CausalForwardKernels<float> causal_forward_f32() { return {&add_keys<float>, &causal_forward<float>}; }
CausalForwardKernels<double> causal_forward_f64() { return {&add_keys<double>, &causal_forward<double>}; }

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::scan::cpu {

HWY_EXPORT(causal_forward_f32);
HWY_EXPORT(causal_forward_f64);

template <>
CausalForwardKernels<float> causal_forward_kernels() {
  return HWY_DYNAMIC_DISPATCH(causal_forward_f32)();
}
template <>
CausalForwardKernels<double> causal_forward_kernels() {
  return HWY_DYNAMIC_DISPATCH(causal_forward_f64)();
}

}  // namespace fovea::scan::cpu
#endif

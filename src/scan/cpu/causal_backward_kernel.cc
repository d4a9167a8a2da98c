#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/causal_backward_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "scan/cpu/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// Base of the backward sweeps: the gradient of y and the chunks of the task.
template <class R>
struct CausalBackward : Pass<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::task, Pass<R>::weights;

  CausalBackward(const Task<R>& t, const Backward& backward, const R* d)
      : Pass<R>(t),
        io(backward),
        keys{backward.k, backward.v, backward.log_decay},
        dots(d),
        chunks(*t.piece, t.begin, t.end, t.chunk) {}

  Chunk from_right(std::int64_t i) const { return chunks[chunks.count() - 1 - i]; }
  std::int64_t kv_head_of(std::int64_t h) const { return h / this->heads_per_kv(); }
  std::int64_t first_head(std::int64_t g) const { return g * this->heads_per_kv(); }
  std::int64_t end_head(const Chunk& chunk, std::int64_t g) const {
    return chunk.has_queries ? (g + 1) * this->heads_per_kv() : first_head(g);
  }

  void load_query(const Chunk& chunk, std::int64_t h) {
    const Place at = this->query_place(chunk.query, h);
    load<R>(this->in(io.q, at, this->d_k), problem.map, chunk.rows, buffers.q);
    load_gradient<R>(gradient_rows<R>(problem, io, at, dots == nullptr ? nullptr : dots + chunk.query), chunk.rows,
                     buffers.g);
  }
  void fetch_queries(const Chunk& chunk, std::int64_t g) {
    for (std::int64_t h = first_head(g); h < end_head(chunk, g); ++h) {
      const Place at = this->query_place(chunk.query, h);
      this->fetch(io.q, at, this->d_k, chunk.rows);
      this->fetch_gradient(io, at, chunk.rows);
    }
  }
  // dS^T += dy^T f(q) with the decay of each query. buffers.q is used up.
  void update_gradient(Matrix<R> d_state, std::size_t c) {
    weigh_queries(buffers.q, c, this->d_k, weights);
    times<Order::columns, StartAdd, R>(buffers.g, buffers.q, d_state, {this->width, this->d_k, c}, &this->next);
  }

  // d_scores = dy v^T on the kept side, decayed unless the decay depends on the channel.
  void score_gradient(std::size_t c) {
    score<Lanes::keys, R>(buffers.g, buffers.v_across, buffers.d_scores, {c, c, this->width}, &this->next);
    mask<Lanes::keys>(buffers.d_scores, c, weights);
  }

  bool has_decay_vjp() const { return io.d_log_decay.data != nullptr && decay_columns(problem) != 0; }
  // The rows of d_log_decay that belong to a chunk.
  Rows<void*> decay_gradient(const Chunk& chunk, std::int64_t g) const {
    return rows_at(dtype_of<R>, io.d_log_decay, this->key_place(chunk.key, g),
                   static_cast<std::size_t>(decay_columns(problem)));
  }

  const Backward& io;
  Keys keys;
  const R* dots;
  Chunks chunks;
};

// From the left to the right, rebuilding the states:  df(q) = dy S^T + d_scores f(k),  d_scores = dy v^T.
template <class R>
struct CausalVjpQueries : CausalBackward<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::next, Pass<R>::weights;
  using CausalBackward<R>::io, CausalBackward<R>::keys, CausalBackward<R>::chunks;

  CausalVjpQueries(const Task<R>& t, const Backward& backward, R* s, const R* d)
      : CausalBackward<R>(t, backward, d), states(s) {}

  void run() {
    const std::size_t c = this->rows(), d_k = this->d_k;
    walk(
        *this, chunks.count(), this->group * (tiles<R>(c, c) + 2 * tiles<R>(c, d_k)) + tiles<R>(this->width, d_k),
        [&](std::int64_t i, std::int64_t g) {
          this->fetch_keys(keys, chunks[i].key, g, chunks[i].rows);
          this->fetch_queries(chunks[i], g);
        },
        [&](std::int64_t i, std::int64_t g) { kv_head(chunks[i], g); });
  }

  void kv_head(const Chunk& chunk, std::int64_t g) {
    const Matrix<R> state = this->state_of(states, g);
    this->load_keys(keys, chunk.key, g, chunk.rows);
    if (chunk.has_queries) simd::transpose<R>(buffers.v, buffers.v_across, chunk.rows, this->width);
    if (this->has_decay_vjp()) clear<R>(chunk.rows, this->decay_gradient(chunk, g));
    for (std::int64_t h = this->first_head(g); h < this->end_head(chunk, g); ++h) head(chunk, h, state);
    this->update_state(state, chunk.rows);
  }

  void head(const Chunk& chunk, std::int64_t h, Matrix<const R> state) {
    const std::size_t c = chunk.rows, d_k = this->d_k, width = this->width;
    this->load_query(chunk, h);
    this->score_gradient(c);
    times<Order::rows, StartZero, R>(buffers.g, state, buffers.d_rows, {c, d_k, width}, &next);
    weigh_queries(buffers.d_rows, c, d_k, weights);
    if (weights.by_channel())
      read_decayed<Lanes::keys, R>({buffers.d_scores, buffers.k, weights.steps, buffers.d_rows, d_k});
    else
      read_keys<R>(buffers.d_scores, buffers.k, buffers.d_rows, {c, d_k, c}, &next);
    if (this->has_decay_vjp())
      add_products<R>(buffers.q, buffers.d_rows, {c, d_k, 0}, this->decay_gradient(chunk, this->kv_head_of(h)));
    store_vjp<R>(buffers.d_rows, buffers.q, problem.map, c, this->out(io.dq, this->query_place(chunk.query, h), d_k));
  }

  R* states;
};

// From the right to the left, with the gradient of the state behind the chunk:
//   df(k) = v dS^T + d_scores^T f(q),   dv^T = dS^T f(k)^T + dy^T scores   (a key in each lane)
template <class R>
struct CausalVjpKeys : CausalBackward<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::next, Pass<R>::weights;
  using CausalBackward<R>::io, CausalBackward<R>::keys, CausalBackward<R>::chunks;

  CausalVjpKeys(const Task<R>& t, const Backward& backward, R* s, const R* d, double* sums)
      : CausalBackward<R>(t, backward, d), d_states(s), decays(sums) {}

  void run() {
    const std::size_t c = this->rows(), d_k = this->d_k, d_v = this->d_v;
    const std::size_t once = tiles<R>(c, d_k) + tiles<R>(d_v, c);
    walk(
        *this, chunks.count(), once + this->group * (once + 2 * tiles<R>(c, c) + tiles<R>(this->width, d_k)),
        [&](std::int64_t i, std::int64_t g) {
          const Chunk chunk = this->from_right(i);
          this->fetch_keys(keys, chunk.key, g, chunk.rows);
          this->fetch_queries(chunk, g);
        },
        [&](std::int64_t i, std::int64_t g) { kv_head(this->from_right(i), g); });
  }

  void kv_head(const Chunk& chunk, std::int64_t g) {
    const std::size_t c = chunk.rows, d_k = this->d_k, d_v = this->d_v, width = this->width;
    const Matrix<R> d_state = this->state_of(d_states, g);
    this->load_keys(keys, chunk.key, g, c);
    times<Order::rows, StartZero, R>(buffers.v, d_state, buffers.d_rows, {c, d_k, width}, &next);
    weigh_keys(buffers.d_rows, c, d_k, weights);
    read_gradient(d_state, c);
    weigh_state(d_state, width, weights);
    if (chunk.has_queries) simd::transpose<R>(buffers.v, buffers.v_across, c, width);
    for (std::int64_t h = this->first_head(g); h < this->end_head(chunk, g); ++h) head(chunk, h, d_state);

    if (this->has_decay_vjp())
      sum_decays<R>(buffers.k, buffers.d_rows, {c, d_k, 0}, this->decay_gradient(chunk, g),
                    decays + g * decay_columns(problem));
    const Place at = this->key_place(chunk.key, g);
    store_vjp<R>(buffers.d_rows, buffers.k, problem.map, c, this->out(io.dk, at, d_k));
    simd::transpose<R>(buffers.y_across, buffers.y, d_v, c);
    store<R>(buffers.y, nullptr, c, this->out(io.dv, at, d_v));
  }

  // dv^T = dS^T f(k)^T as the keys met the state, and leaves f(k)^T in k_across.
  void read_gradient(Matrix<const R> d_state, std::size_t c) {
    const std::size_t d_k = this->d_k, d_v = this->d_v;
    const bool by_channel = weights.by_channel();
    simd::transpose<R>(buffers.k, buffers.k_across, c, d_k);
    if (by_channel) {
      std::copy_n(buffers.k.data, padded<R>(c) * buffers.k.ld, buffers.q.data);
      weigh_keys(buffers.q, c, d_k, weights);
      simd::transpose<R>(buffers.q, buffers.q_across, c, d_k);
    }
    times<Order::rows, StartZero, R>(d_state, by_channel ? buffers.q_across : buffers.k_across, buffers.y_across,
                                     {d_v, c, d_k}, &next);
    weigh_key_lanes(buffers.y_across, d_v, c, weights);
  }

  void head(const Chunk& chunk, std::int64_t h, Matrix<R> d_state) {
    const std::size_t c = chunk.rows, d_k = this->d_k, d_v = this->d_v;
    this->load_query(chunk, h);
    this->score_gradient(c);
    if (weights.by_channel()) {
      std::fill(buffers.d_scores.row(c), buffers.d_scores.row(padded<R>(c)), R{0});
      read_decayed<Lanes::queries, R>({buffers.d_scores, buffers.q, weights.steps, buffers.d_rows, d_k});
    } else {
      read_queries<R>(buffers.d_scores, buffers.q, buffers.d_rows, {c, d_k, c}, &next);
    }
    this->template score_pairs<Lanes::keys>(buffers.q, buffers.k_across, buffers.q_across, c);
    read_across<Lanes::keys, R>(buffers.g, buffers.scores, buffers.y_across, {d_v, c, c}, &next);
    this->update_gradient(d_state, c);
  }

  R* d_states;
  double* decays;
};

template <class R>
void causal_vjp_queries(const Task<R>& task, const Backward& io, R* states, const R* dots) {
  CausalVjpQueries<R>(task, io, states, dots).run();
}
template <class R>
void causal_vjp_keys(const Task<R>& task, const Backward& io, R* d_states, const R* dots, double* decays) {
  CausalVjpKeys<R>(task, io, d_states, dots, decays).run();
}

template <class R>
void add_queries(const Task<R>& task, const Backward& io, R* d_states, const R* dots) {
  CausalBackward<R> pass(task, io, dots);
  walk(
      pass, pass.chunks.count(), pass.group * tiles<R>(pass.width, pass.d_k),
      [&](std::int64_t i, std::int64_t g) { pass.fetch_queries(pass.from_right(i), g); },
      [&](std::int64_t i, std::int64_t g) {
        const Chunk chunk = pass.from_right(i);
        const Matrix<R> d_state = pass.state_of(d_states, g);
        pass.load_decay(io.log_decay, chunk.key, g, chunk.rows);
        weigh_state(d_state, pass.width, pass.weights);
        for (std::int64_t h = pass.first_head(g); h < pass.end_head(chunk, g); ++h) {
          pass.load_query(chunk, h);
          pass.update_gradient(d_state, chunk.rows);
        }
      });
}

template <class R>
void row_dots(const Task<R>& task, const Backward& io, R* dots) {
  for (std::int64_t i = task.begin; i < task.end; ++i)
    dots[i] = row_dot<R>(*task.problem, io, {task.piece->batch, task.piece->q0 + i, 0});
}

template <class R>
CausalBackwardKernels<R> causal_backward_table() {
  return {&add_keys<R>, &row_dots<R>, &causal_vjp_queries<R>, &add_queries<R>, &causal_vjp_keys<R>};
}
CausalBackwardKernels<float> causal_backward_f32() { return causal_backward_table<float>(); }
CausalBackwardKernels<double> causal_backward_f64() { return causal_backward_table<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::scan::cpu {

HWY_EXPORT(causal_backward_f32);
HWY_EXPORT(causal_backward_f64);

template <>
CausalBackwardKernels<float> causal_backward_kernels() {
  return HWY_DYNAMIC_DISPATCH(causal_backward_f32)();
}
template <>
CausalBackwardKernels<double> causal_backward_kernels() {
  return HWY_DYNAMIC_DISPATCH(causal_backward_f64)();
}

}  // namespace fovea::scan::cpu
#endif

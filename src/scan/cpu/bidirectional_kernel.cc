#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/bidirectional_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "scan/cpu/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// Outputs y = f(q) S of blocks of rows, all heads of a block before the next: rows are read and written whole, and the
// norm over all heads finds its block in cache.
template <class R>
struct ReadStates : Pass<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::task;

  ReadStates(const Task<R>& t, const Forward& forward, const R* s, const R* m)
      : Pass<R>(t), io(forward), states(s), matrices(m) {}

  void run() {
    const Blocks blocks = {task.begin, task.end, task.chunk};
    walk(
        *this, blocks.count(), this->group * (tiles<R>(this->rows(), this->d_v) + this->source_tiles(io.q_source)),
        [&](std::int64_t i, std::int64_t g) {
          for (std::int64_t h = g * this->heads_per_kv(); h < (g + 1) * this->heads_per_kv(); ++h)
            this->fetch_features(io.q, io.q_source, this->query_place(blocks.row(i), h), blocks.rows(i));
        },
        [&](std::int64_t i, std::int64_t g) {
          for (std::int64_t h = g * this->heads_per_kv(); h < (g + 1) * this->heads_per_kv(); ++h)
            head(blocks.row(i), g, h, blocks.rows(i));
          if (problem.rms_norm && g + 1 == task.last) finish_norm(blocks.row(i), blocks.rows(i));
        });
  }

  void head(std::int64_t row, std::int64_t g, std::int64_t h, std::size_t c) {
    const Place at = this->query_place(row, h);
    const Matrix<const R> q = this->features(io.q, io.q_source, at, c, buffers.q);
    const Matrix<R> y = problem.rms_norm ? held(h) : buffers.y;
    times<Order::rows, StartZero, R>(q, this->matrix_of(matrices, g), y, {c, this->d_v, this->d_k}, &this->next);
    if (problem.rms_norm) return;
    const bool divided = problem.denominator != Denominator::none;
    if (divided) divide(q, this->state_of(states, g).row(this->d_v), at, c);
    this->store_outputs(io, y, divided ? buffers.factor : nullptr, at, c);
  }

  // D = f(q) . z, z: [d_k] the sum of the features of the keys.
  void divide(Matrix<const R> q, const R* z, const Place& at, std::size_t c) {
    R* statistic = statistic_at<R>(problem, io.statistic, at);
    for (std::size_t i = 0; i < c; ++i) {
      const R d = denominator(problem, dot_as<R>(q.row(i), z, this->d_k));
      buffers.factor[i] = d == 0 ? R{0} : 1 / d;
      if (statistic != nullptr) statistic[static_cast<std::int64_t>(i) * io.statistic.row] = d;
    }
  }

  void finish_norm(std::int64_t row, std::size_t c) {
    for (std::size_t i = 0; i < c; ++i) {
      R sum = 0;
      for (std::size_t h = 0; h < this->heads; ++h) {
        const R* y = held(static_cast<std::int64_t>(h)).row(i);
        sum += dot_as<R>(y, y, this->d_v);
      }
      buffers.factor[i] = norm_factor(problem, sum);
    }
    store_statistic(problem, io.statistic, this->query_place(row, 0), buffers.factor, c);
    for (std::int64_t h = 0; h < problem.heads; ++h)
      this->store_outputs(io, held(h), buffers.factor, this->query_place(row, h), c);
  }

  Matrix<R> held(std::int64_t h) const {
    return {buffers.held + static_cast<std::size_t>(h) * buffers.held_size, this->ld_v};
  }

  const Forward& io;
  const R* states;
  const R* matrices;
};

// dq = (dy S^T) f'(q) and dS += f(q)^T dy, where dy is the gradient of y before the denominator or the norm.
template <class R>
struct VjpQueries : Pass<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::task;

  VjpQueries(const Task<R>& t, const Backward& backward, const R* s, R* d)
      : Pass<R>(t), io(backward), states(s), d_states(d) {}

  void run() {
    const Blocks blocks = {task.begin, task.end, task.chunk};
    walk(
        *this, blocks.count(),
        this->group * (tiles<R>(this->width, this->d_k) + tiles<R>(this->rows(), this->d_k) + source_calls()),
        [&](std::int64_t i, std::int64_t g) {
          for (std::int64_t h = g * this->heads_per_kv(); h < (g + 1) * this->heads_per_kv(); ++h)
            fetch_head(this->query_place(blocks.row(i), h), blocks.rows(i));
        },
        [&](std::int64_t i, std::int64_t g) {
          const std::size_t c = blocks.rows(i);
          if (problem.rms_norm && g == task.first)
            for (std::size_t r = 0; r < c; ++r)
              buffers.factor[r] =
                  row_dot<R>(problem, io, this->query_place(blocks.row(i) + static_cast<std::int64_t>(r), 0));
          for (std::int64_t h = g * this->heads_per_kv(); h < (g + 1) * this->heads_per_kv(); ++h)
            head(this->query_place(blocks.row(i), h), g, c);
        });
  }

  // dx of 32 columns or so
  std::size_t source_calls() const { return io.q_source == nullptr ? 0 : tiles<R>(this->rows(), this->d_v); }

  void fetch_head(const Place& at, std::size_t c) {
    this->fetch_features(io.q, io.q_source, at, c);
    this->fetch_gradient(io, at, c);
  }

  void head(const Place& at, std::int64_t g, std::size_t c) {
    const Matrix<const R> q = this->features(io.q, io.q_source, at, c, buffers.q);
    load_gradient<R>(gradient_rows<R>(problem, io, at, problem.rms_norm ? buffers.factor : nullptr), c, buffers.g);
    times<Order::columns, StartAdd, R>(buffers.g, q, this->state_of(d_states, g), {this->width, this->d_k, c},
                                       &this->next);
    times<Order::rows, StartZero, R>(buffers.g, this->state_of(states, g), buffers.d_rows, {c, this->d_k, this->width},
                                     &this->next);
    this->store_features_vjp(buffers.d_rows, q, io.q_source, at, c, io.dq);
  }

  const Backward& io;
  const R* states;
  R* d_states;
};

// dk = (v dS^T) f'(k) and dv = f(k) dS.
template <class R>
struct VjpKeys : Pass<R> {
  using Pass<R>::buffers, Pass<R>::problem, Pass<R>::task;

  VjpKeys(const Task<R>& t, const Backward& backward, const R* s, const R* m)
      : Pass<R>(t), io(backward), d_states(s), d_matrices(m) {}

  void run() {
    const Blocks blocks = {task.begin, task.end, task.chunk};
    walk(
        *this, blocks.count(), tiles<R>(this->rows(), this->d_v) + tiles<R>(this->rows(), this->d_k),
        [&](std::int64_t i, std::int64_t g) {
          this->fetch_keys({io.k, io.v, {}, io.k_source}, blocks.row(i), g, blocks.rows(i));
        },
        [&](std::int64_t i, std::int64_t g) { head(blocks.row(i), g, blocks.rows(i)); });
  }

  void head(std::int64_t row, std::int64_t g, std::size_t c) {
    const Matrix<const R> k = this->load_keys({io.k, io.v, {}, io.k_source}, row, g, c);
    times<Order::rows, StartZero, R>(k, this->matrix_of(d_matrices, g), buffers.y, {c, this->d_v, this->d_k},
                                     &this->next);
    times<Order::rows, StartZero, R>(buffers.v, this->state_of(d_states, g), buffers.d_rows,
                                     {c, this->d_k, this->width}, &this->next);
    const Place at = this->key_place(row, g);
    store<R>(buffers.y, nullptr, c, this->out(io.dv, at, this->d_v));
    this->store_features_vjp(buffers.d_rows, k, io.k_source, at, c, io.dk);
  }

  const Backward& io;
  const R* d_states;
  const R* d_matrices;
};

template <class R>
void transpose_state(const Problem& problem, const R* state, R* matrix) {
  const StateLayout<R> layout(problem);
  simd::transpose<R>({state, layout.ld_k}, {matrix, layout.ld_v}, layout.width, layout.d_k);
}

template <class R>
void read_states(const Task<R>& task, const Forward& io, const R* states, const R* matrices) {
  ReadStates<R>(task, io, states, matrices).run();
}
template <class R>
void vjp_queries(const Task<R>& task, const Backward& io, const R* states, R* d_states) {
  VjpQueries<R>(task, io, states, d_states).run();
}
template <class R>
void vjp_keys(const Task<R>& task, const Backward& io, const R* d_states, const R* d_matrices) {
  VjpKeys<R>(task, io, d_states, d_matrices).run();
}

template <class R>
BidirectionalKernels<R> bidirectional_table() {
  return {&add_keys<R>, &transpose_state<R>, &read_states<R>, &vjp_queries<R>, &vjp_keys<R>};
}
BidirectionalKernels<float> bidirectional_f32() { return bidirectional_table<float>(); }
BidirectionalKernels<double> bidirectional_f64() { return bidirectional_table<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::scan::cpu {

HWY_EXPORT(bidirectional_f32);
HWY_EXPORT(bidirectional_f64);

template <>
BidirectionalKernels<float> bidirectional_kernels() {
  return HWY_DYNAMIC_DISPATCH(bidirectional_f32)();
}
template <>
BidirectionalKernels<double> bidirectional_kernels() {
  return HWY_DYNAMIC_DISPATCH(bidirectional_f64)();
}

}  // namespace fovea::scan::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/step_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "scan/cpu/buffers.h"
#include "scan/cpu/decay-inl.h"
#include "scan/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {

// after = decay before + k v, y += q after; `after` may be `before`.
template <class R>
HWY_NOINLINE void step_row(const StepRow<R>& x, const R* v, std::size_t width, R* y) {
#pragma omp simd
  for (std::size_t w = 0; w < width; ++w) {
    const R sum = x.decay * x.before[w] + x.k * v[w];
    x.after[w] = sum;
    y[w] += x.q * sum;
  }
}

template <class R>
HWY_NOINLINE void add_scaled(const R* HWY_RESTRICT x, R factor, std::size_t n, R* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

// A state is read and written once, row by row; every query head of its group reads the row while it is at hand.
template <class R>
struct StepPiece : StateLayout<R> {
  StepPiece(const Problem& p, const Forward& forward, std::size_t index, Room scratch)
      : StepPiece(p, forward, index, Parts<R>(scratch)) {}
  StepPiece(const Problem& p, const Forward& forward, std::size_t index, Parts<R> parts)
      : StateLayout<R>(p), problem(p), io(forward), piece(p.pieces[index]), number(index), rows(p, parts) {}

  void run() {
    std::fill_n(rows.zero, this->width, R{0});
    for (std::size_t g = 0; g < this->kv_heads; ++g) kv_head(g);
    R factor = 1;
    if (problem.rms_norm) {
      R squares = 0;
      for (std::size_t h = 0; h < this->heads; ++h) squares += dot_as<R>(rows.y.row(h), rows.y.row(h), this->d_v);
      factor = norm_factor(problem, squares);
      store_statistic(problem, io.statistic, query_place(0), &factor, 1);
    }
    for (std::size_t h = 0; h < this->heads; ++h) finish(h, factor);
  }

  Place query_place(std::size_t h) const { return {piece.batch, piece.q0, static_cast<std::int64_t>(h)}; }

  void kv_head(std::size_t g) {
    const Place at = {piece.batch, piece.k0, static_cast<std::int64_t>(g)};
    load_exactly<R>(rows_at(problem.dtype, io.k, at, this->d_k), problem.map, 1, rows.k);
    load_exactly<R>(rows_at(problem.dtype, io.v, at, this->d_v), Map::identity, 1, rows.v);
    if (this->width != this->d_v) rows.v.data[this->d_v] = 1;
    const std::size_t first = g * this->group;
    for (std::size_t j = 0; j < this->group; ++j) {
      load_exactly<R>(rows_at(problem.dtype, io.q, query_place(first + j), this->d_k), problem.map, 1,
                      {rows.q.row(j), rows.q.ld});
      std::fill_n(rows.y.row(first + j), this->width, R{0});
    }
    const std::size_t state = (number * this->kv_heads + g) * this->d_k * this->width;
    const R* before = static_cast<const R*>(io.initial_state);
    R* after = static_cast<R*>(io.final_state);
    load_decay(at);
    for (std::size_t a = 0; a < this->d_k; ++a) {
      const std::size_t offset = state + a * this->width;
      const StepRow<R> row = {.k = rows.k.data[a],
                              .q = rows.q.data[a],
                              .decay = rows.decay[a],
                              .before = before == nullptr ? rows.zero : before + offset,
                              .after = after == nullptr ? rows.unused : after + offset};
      step_row<R>(row, rows.v.data, this->width, rows.y.row(first));
      for (std::size_t j = 1; j < this->group; ++j)
        add_scaled<R>(row.after, rows.q.row(j)[a], this->width, rows.y.row(first + j));
    }
  }

  // e^g of every channel.
  void load_decay(const Place& at) {
    std::fill_n(rows.decay, this->d_k, R{1});
    if (problem.decay == Decay::none) return;
    if (problem.decay == Decay::head) {
      std::fill_n(rows.decay, this->d_k, static_cast<R>(std::exp(problem.log_decay[at.head])));
      return;
    }
    const R* g = static_cast<const R*>(rows_at(dtype_of<R>, io.log_decay, at, 1).data);
    if (problem.decay == Decay::step) {
      std::fill_n(rows.decay, this->d_k, math::exp(g[0]));
    } else {
      load_decays<R>(g, 0, 1, this->d_k, {rows.decay, this->d_k});
    }
  }

  void finish(std::size_t h, R factor) {
    if (problem.denominator != Denominator::none) {
      const R d = denominator(problem, rows.y.row(h)[this->d_v]);
      factor = d == 0 ? R{0} : 1 / d;
      store_statistic(problem, io.statistic, query_place(h), &d, 1);
    }
    const Rows<void*> to = rows_at(problem.output_type(), io.o, query_place(h), this->d_v);
    visit_element<R>(to.dtype, [&]<class T>() { store_as<R, T>({rows.y.row(h), rows.y.ld}, &factor, 1, to); });
    if (io.rest.data != nullptr)
      store_rest<R>({rows.y.row(h), rows.y.ld}, &factor, 1, rows_at(to.dtype, io.rest, query_place(h), this->d_v));
  }

  const Problem& problem;
  const Forward& io;
  const Piece& piece;
  std::size_t number;
  StepBuffers<R> rows;
};

template <class R>
void step(const Problem& problem, const Forward& io, std::size_t piece, Room scratch) {
  StepPiece<R>(problem, io, piece, scratch).run();
}
Step* step_f32() { return &step<float>; }
Step* step_f64() { return &step<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::scan::cpu {

HWY_EXPORT(step_f32);
HWY_EXPORT(step_f64);

template <>
Step* step_kernel<float>() {
  return HWY_DYNAMIC_DISPATCH(step_f32)();
}
template <>
Step* step_kernel<double>() {
  return HWY_DYNAMIC_DISPATCH(step_f64)();
}

}  // namespace fovea::scan::cpu
#endif

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/scratch.h"
#include "scan/contract.h"

// What the kernels of the linear engine are called with. Every function works on some rows of one piece and some kv
// heads, in one thread; the drivers above cut the work and put the results together. R is float, or double for f64.
//
// Inside, a state is transposed: [width][d_k], rows padded to vectors, so that the denominator's extra column is an
// extra row: 1/64 of a product, where a column would cost a whole vector. `states` holds one per kv head.
namespace fovea::scan::cpu {

// Rows [begin, end) of a piece and kv heads [first, last).
template <class R>
struct Task {
  const Problem* problem;
  const Piece* piece;
  std::int64_t begin, end;
  std::int64_t first, last;
  std::int64_t chunk;
  Room scratch;  // Buffers in buffers.h
  Room made;     // for a FeatureSource
};

// For the norm over all heads when several tasks share the heads of a segment: each leaves its rows unfinished together
// with their sums of squares, and the last one to come to a chunk finishes it. Nobody waits.
template <class R>
struct NormExchange {
  int lanes = 1;                        // tasks that share; 1: the rest is not used
  std::atomic<int>* arrived = nullptr;  // [chunks] tasks that are through
  R* squares = nullptr;                 // [chunks][heads][chunk rows]
  Out rows;                             // unfinished rows of the piece, elements of R; o itself where it has that type
};

// What goes into a state.
struct Keys {
  In k, v, log_decay;
  const FeatureSource* k_source = nullptr;
};

// Adds keys [begin, end) to the states, decaying them on the way.
template <class R>
using AddKeys = void(const Task<R>& task, const Keys& keys, R* states);

// Bidirectional: rows are independent once the states stand.
template <class R>
struct BidirectionalKernels {
  AddKeys<R>* add_keys;
  // The state of one head the right way round, [d_k][d_v].
  void (*transpose_state)(const Problem& problem, const R* state, R* matrix);
  // o of queries [begin, end). `matrices`: the states, transposed.
  void (*read_states)(const Task<R>& task, const Forward& io, const R* states, const R* matrices);
  // dq of queries [begin, end), and their share of the gradient of the states.
  void (*vjp_queries)(const Task<R>& task, const Backward& io, const R* states, R* d_states);
  // dk and dv of keys [begin, end).
  void (*vjp_keys)(const Task<R>& task, const Backward& io, const R* d_states, const R* d_matrices);
};
template <class R>
BidirectionalKernels<R> bidirectional_kernels();

// Causal: [begin, end) are positions on the key axis; the states run along.
template <class R>
struct CausalForwardKernels {
  AddKeys<R>* add_keys;
  void (*forward)(const Task<R>& task, const Forward& io, R* states, const NormExchange<R>& exchange);
};
template <class R>
CausalForwardKernels<R> causal_forward_kernels();

template <class R>
struct CausalBackwardKernels {
  AddKeys<R>* add_keys;
  // dots[i] = d_o . o over all heads, for queries [begin, end): what the norm's gradient needs of other heads.
  void (*row_dots)(const Task<R>& task, const Backward& io, R* dots);
  // dq, from the left to the right. `dots` belongs to the piece; null without norm. Leaves in d_log_decay what the
  // queries give to the gradient of the decay at their own step: f(q) df(q).
  void (*vjp_queries)(const Task<R>& task, const Backward& io, R* states, const R* dots);
  // Adds the queries' share to the gradient of the states, from the right to the left.
  void (*add_queries)(const Task<R>& task, const Backward& io, R* d_states, const R* dots);
  // dk and dv, from the right to the left; also d_log_decay within these rows: `decays`, [kv_heads][columns], is what
  // comes from the right, and runs along.
  void (*vjp_keys)(const Task<R>& task, const Backward& io, R* d_states, const R* dots, double* decays);
};
template <class R>
CausalBackwardKernels<R> causal_backward_kernels();

// One piece of one query and one key, all heads: the caller's states, (d_k, width), are read and written as they are.
using Step = void(const Problem& problem, const Forward& io, std::size_t piece, Room scratch);
template <class R>
Step* step_kernel();

}  // namespace fovea::scan::cpu

#pragma once

#include <cstdint>
#include <span>

#include "core/array.h"
#include "core/wide.h"
#include "fovea/context.h"
#include "fovea/dtype.h"
#include "tile/plan.h"

// The pairwise engine: o_i = sum_j w(s_ij) v_j over the pairs a plan keeps, s_ij = scale q_i.k_j + bias.
// Knows nothing of tensors, tapes or mechanisms; launch.h is its door for tensors. Nothing of size n x n is ever stored
// (except a bias the caller has).
namespace fovea::tile {

using fovea::Array, fovea::In, fovea::Out;

// One independent rectangle of attention in one batch item: rows q0, q0 + q_step, ... (nq of them) of q, o and their
// kin against rows k0, k0 + k_step, ... (nk) of k, v and theirs. Padding by lengths, packed sequences and plain batches
// are all lists of pieces; with steps the residue classes of a dilated pattern are dense pieces.
// The plan is local: its query i sits at position i + nk - nq (bottom-right alignment), its key j at position j.
// Bias, dropout and ALiBi go by the rows of the arrays.
// The pieces of a call share no row of q in any head. Forward may read a row of k from several; backward overwrites dk
// and dv, so there they share no row of k either.
struct Piece {
  std::int64_t batch = 0, q0 = 0, nq = 0, k0 = 0, nk = 0;
  const Plan* plan = nullptr;  // compiled for exactly (nq, nk)
  std::int64_t q_step = 1, k_step = 1;
  std::int64_t gap = 0;       // for ALiBi: how many rows the last query stands behind the last key; 0: on top of it
  std::int64_t kv_head = -1;  // this one alone, with the query heads that read it; -1: all
  std::int64_t bias_at = 0, d_bias_at = 0;  // elements further on in the bias and its gradient

  std::int64_t query_row(std::int64_t i) const { return q0 + i * q_step; }
  std::int64_t key_row(std::int64_t j) const { return k0 + j * k_step; }
  // Rows from key j to query i; where the steps are equal, those of the plan's positions times the step.
  std::int64_t distance(std::int64_t i, std::int64_t j) const {
    return gap + (nk - 1 - j) * k_step - (nq - 1 - i) * q_step;
  }
};

// What a score s weighs. Pairs that are not kept weigh exactly 0. All but the first two have no normaliser: a column of
// ones in v gives the sum of a row's weights. Every weight runs in every dtype, bf16 on pairs where the machine has
// them.
enum class Weight : std::uint8_t {
  softmax,      // exp(s) / sum of exp(s)
  self_adjust,  // s exp(s) / sum of exp(s)
  rela,         // max(s, 0)
  relu2,        // max(s, 0)^2
  sigmoid,      // 1 / (1 + exp(-(s + offset)))
  exp,          // exp(s) up to 2^100 (f64: 2^996), constant beyond
  power,        // s^degree
  taylor,       // sum over m <= degree of s^m / m!
};
// Those that save the log-sum-exp of a row and need it in backward, together with o.
constexpr bool has_statistic(Weight weight) { return weight == Weight::softmax || weight == Weight::self_adjust; }

// Additive bias (batch, heads, n_q, n_k) in f32 (f64 for f64 problems); stride 0 on a broadcast axis; indexed by global
// rows of q and k. -inf entries mask. Strides that are each other's negative make a bias of the distance alone: one
// element for every diagonal, which is read fastest with 1 for the query and -1 for the key.
template <class Pointer>
struct BiasArray {
  Pointer data = nullptr;
  std::int64_t batch = 0, head = 0, query = 0, key = 0;

  bool is_diagonal() const { return query != 0 && query == -key; }
};

struct Dropout {
  float p = 0.0f;
  std::uint64_t seed = 0, stream = 0;  // see policy/dropout.h for the counter of a pair
  // What the counter calls head 0 and rows 0 of q and k of this problem: a part draws the bits of the whole.
  std::int64_t first_head = 0, first_query = 0, first_key = 0;
};

struct Problem {
  DType dtype = DType::f32;              // of q, k, v, o and their gradients; statistics are f32 (f64 for f64)
  bool wide_outputs = false;             // o and its gradient are f32 (f64 for f64) instead
  std::int64_t heads = 0, kv_heads = 0;  // query head h reads kv head h * kv_heads / heads
  std::int64_t d_k = 0, d_v = 0;
  std::span<const Piece> pieces;
  Weight weight = Weight::softmax;
  double offset = 0.0;  // of sigmoid
  int degree = 2;       // of power and taylor: 2 or 4
  double scale = 1.0;
  const double* alibi = nullptr;  // slope of each query head: score -= slope * |distance in rows|
  BiasArray<const void*> bias;
  Dropout dropout;

  DType output_type() const { return wide_outputs ? wide_type(dtype) : dtype; }
};

// Row statistic: the natural log-sum-exp, -inf for an empty row; (batch, n_q, heads), dim 1. See has_statistic.
// Rows of o and lse that belong to no piece are not written: the caller clears them.
struct Forward {
  In q, k, v;
  Out o;
  Out lse;        // may be null
  Out rest = {};  // may be null: what o lost when it was rounded to its dtype, in that dtype
};
template <Device>
void forward(const Context& context, const Problem& problem, const Forward& io);

struct Backward {
  In q, k, v, o, lse;
  In d_o;
  In d_lse;        // may be null; only weights with a statistic have one
  Out dq, dk, dv;  // overwritten on the rows of the pieces; other rows are the caller's
  BiasArray<void*>
      d_bias;    // may be null; same broadcast axes as the bias; overwritten, the caller clears what no piece reaches.
                 // That of a diagonal bias is added to, and every piece and head has elements of its own
  In rest = {};  // may be null: of forward, for weights with a statistic
};
template <Device>
void backward(const Context& context, const Problem& problem, const Backward& io);

}  // namespace fovea::tile

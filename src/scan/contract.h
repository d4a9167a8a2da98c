#pragma once

#include <cstdint>
#include <span>

#include "core/array.h"
#include "core/wide.h"
#include "fovea/context.h"
#include "fovea/dtype.h"

// The linear engine: S_t = e^{g_t} S_{t-1} + f(k_t) v_t^T, y_t = S_t^T f(q_t), optionally divided by a denominator or
// normalised over all heads. Knows nothing of tensors, tapes or mechanisms; launch.h is its door for tensors.
namespace fovea::scan {

using fovea::Array, fovea::In, fovea::Out;

// Rows [q0, q0 + nq) of q against rows [k0, k0 + nk) of k and v in one batch item. Causal: query i reads keys
// j <= i + nk - nq (bottom-right); a query that reads none gives a zero row.
struct Piece {
  std::int64_t batch = 0, q0 = 0, nq = 0, k0 = 0, nk = 0;
};

enum class Map : std::uint8_t { identity, elu_plus_one, elu, relu };  // policy/feature_map.h
enum class Denominator : std::uint8_t { none, add, clamp };           // D + eps, or max(D, eps)

// What the decay of a state depends on, besides its kv head: nothing, the step, or the step and the row of the state.
enum class Decay : std::uint8_t { none, head, step, channel };

struct Problem {
  DType dtype = DType::f32;   // of q, k, v, o and their gradients; states and statistics are f32 (f64 for f64)
  bool wide_outputs = false;  // o and its gradient are f32 (f64 for f64) instead
  std::int64_t heads = 0, kv_heads = 0;  // query head h reads kv head h * kv_heads / heads
  std::int64_t d_k = 0, d_v = 0;
  std::span<const Piece> pieces;
  bool causal = false;
  Map map = Map::identity;
  Decay decay = Decay::none;          // causal only
  const double* log_decay = nullptr;  // Decay::head: g per kv head, finite and <= 0
  Denominator denominator = Denominator::none;
  double denominator_eps = 0.0;
  bool rms_norm = false;  // y / sqrt(mean over heads and d_v of y^2 + norm_eps); excludes a denominator
  double norm_eps = 0.0;
  std::int64_t chunk = 0;  // 0: the engine chooses; tests force others

  DType output_type() const { return wide_outputs ? wide_type(dtype) : dtype; }
};

// A state is (pieces, kv_heads, d_k, width), dense, width = d_v, plus one column for the denominator when there is one.
std::int64_t state_width(const Problem& problem);

// Are all pieces of one query and one key?
bool is_step(const Problem& problem);

// Row statistic saved for backward: (batch, n_q, heads) denominators, or (batch, n_q) factors 1/sqrt(...) of the norm;
// the caller allocates it dense as (batch, n_q, statistic_columns(problem)), f32 (f64 for f64).
std::int64_t statistic_columns(const Problem& problem);

// Decay::step and Decay::channel read g from an array beside the keys, (batch, n_k, kv_heads, columns) with 1 or d_k
// columns, f32 (f64 for f64). Any g <= 0 works, -inf forgets everything; the values are not checked, and a positive one
// lets the state grow.
std::int64_t decay_columns(const Problem& problem);

class FeatureSource;  // feature_source.h

struct Forward {
  In q, k, v;
  In log_decay;  // of steps or channels
  Out o;
  Out statistic;                        // head stride 1; null when statistic_columns is 0 or nothing is saved
  const void* initial_state = nullptr;  // null: zero
  void* final_state = nullptr;          // null: not wanted
  Out rest = {};                        // may be null: what o lost when it was rounded to its dtype, in that dtype
  // Null: not wanted. (pieces, kv_heads, d_k), f32 (f64 for f64): what the rows of a state are multiplied with on their
  // way over a whole piece. Pieces without queries need no q and no o; with this they tell what they do to any state:
  // final = total_decay initial + final from zero.
  void* total_decay = nullptr;
  // Null: q and k are what the engine maps itself. Else its features of d_k, and q and k are not read.
  const FeatureSource *q_source = nullptr, *k_source = nullptr;
};
// Rows of o that belong to no piece are not written: the caller clears them.
template <Device>
void forward(const Context& context, const Problem& problem, const Forward& io);

struct Backward {
  In q, k, v, log_decay, o, statistic;
  In d_o;
  const void* initial_state = nullptr;
  const void* final_state = nullptr;    // what forward wrote; spares bidirectional a pass over k and v; null: rebuilt
  const void* d_final_state = nullptr;  // null: zero
  Out dq, dk, dv;                       // overwritten on the rows of the pieces
  Out d_log_decay;                      // the same for steps or channels; null: not wanted
  void* d_initial_state = nullptr;      // null: not wanted
  In rest = {};                         // may be null: of forward, where there is a statistic
  const FeatureSource *q_source = nullptr, *k_source = nullptr;  // as in forward; they take dq and dk
};
template <Device>
void backward(const Context& context, const Problem& problem, const Backward& io);

}  // namespace fovea::scan

#pragma once

#include "scan/cuda/elements.cuh"

// States between the segments of a piece.
namespace fovea::scan::cuda {

inline constexpr int kStateThreads = 256;

// How a block's threads share columns of numbers: neighbours take neighbouring columns, and several a column's rows.
struct Columns {
  int lanes, column, lane;  // threads of a column; this thread's column in the block, and its place among them

  __device__ explicit Columns(int columns) {
    const int side = columns == 1 ? 1 : 32;
    lanes = static_cast<int>(blockDim.x) / side;
    column = static_cast<int>(threadIdx.x) % side;
    lane = static_cast<int>(threadIdx.x) / side;
  }
  static __host__ __device__ int in_block(int columns) { return columns == 1 ? 1 : 32; }
  __device__ int thread(int other_lane) const { return other_lane * (static_cast<int>(blockDim.x) / lanes) + column; }
};

// factors[cut][kv head][column]: what a state is multiplied with on its way over a segment; one column, or d_k.
// Grid: (cuts, kv heads, groups of columns).
template <class R>
__global__ void segment_decay_kernel(const __grid_constant__ Call call, const Cut* cuts, R* factors) {
  __shared__ double sums[kStateThreads];
  const Cut cut = cuts[blockIdx.x];
  const PieceView& piece = call.pieces[cut.piece];
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int columns = call.decay == Decay::channel ? call.d_k : 1;
  const Columns own(columns);
  const int column = static_cast<int>(blockIdx.z) * Columns::in_block(columns) + own.column;
  double sum = 0;
  if (call.decay == Decay::head) {
    if (own.lane == 0) sum = call.head_decay[kv_head] * static_cast<double>(cut.end - cut.begin);
  } else if (column < columns) {
    for (std::int64_t t = cut.begin + own.lane; t < cut.end; t += own.lanes)
      sum += static_cast<double>(static_cast<const R*>(
          call.log_decay.data)[offset_of(call.log_decay, piece.batch, piece.k0 + t, kv_head) + column]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (own.lane != 0 || column >= columns) return;
  double all = 0;
  for (int l = 0; l < own.lanes; ++l) all += sums[own.thread(l)];
  factors[(std::int64_t{blockIdx.x} * call.kv_heads + kv_head) * columns + column] = static_cast<R>(exp(all));
}

// Puts what arrives at each segment in place of its own sum. Grid: (pieces, parts of a state, heads of the states).
template <class R>
__global__ void carry_kernel(const __grid_constant__ Call call, R* states, const R* factors, const R* outside,
                             bool back) {
  const PieceView& piece = call.pieces[blockIdx.x];
  const std::int64_t e = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x, size = call.state_size();
  if (e >= size) return;
  const std::int32_t heads = static_cast<std::int32_t>(gridDim.z), head = static_cast<std::int32_t>(blockIdx.z);
  const std::int32_t group = heads / call.kv_heads, kv_head = head / group;
  const bool by_channel = call.decay == Decay::channel;
  const std::int64_t columns = by_channel ? call.d_k : 1, column = by_channel ? e / call.width : 0;
  R carried = 0;
  if (outside != nullptr && head % group == 0)
    carried = outside[(std::int64_t{blockIdx.x} * call.kv_heads + kv_head) * size + e];
  for (std::int32_t i = 0; i < piece.cuts; ++i) {
    const std::int64_t cut = piece.first_cut + (back ? piece.cuts - 1 - i : i);
    R& state = states[(cut * heads + head) * size + e];
    const R own = state;
    state = carried;
    const R factor = factors == nullptr ? R{1} : factors[(cut * call.kv_heads + kv_head) * columns + column];
    carried = factor * carried + own;
  }
}

// Sums of a piece's segments and of the heads of a group, and `outside`, in order.
enum class Parts : std::uint8_t { key_segments, query_segments, pieces };
template <class R>
struct Totals {
  Parts parts;
  const R* sums;       // [parts][heads]
  std::int32_t heads;  // of the sums
  const R* outside;    // null: zero
  R* total;            // [pieces][kv heads]
  R* copy;             // the same for the caller; null: not wanted
};
// Grid: (pieces, parts of a state, kv heads).
template <class R>
__global__ void total_kernel(const __grid_constant__ Call call, const __grid_constant__ Totals<R> to) {
  const std::int64_t e = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x, size = call.state_size();
  if (e >= size) return;
  const PieceView& piece = call.pieces[blockIdx.x];
  std::int64_t first = blockIdx.x, count = 1;
  if (to.parts == Parts::key_segments) first = piece.first_cut, count = piece.cuts;
  if (to.parts == Parts::query_segments) first = piece.first_query_cut, count = piece.query_cuts;
  const std::int32_t group = to.heads / call.kv_heads;
  const std::int64_t at = (std::int64_t{blockIdx.x} * call.kv_heads + blockIdx.z) * size + e;
  R sum = 0;
  for (std::int64_t i = first; i < first + count; ++i)
    for (std::int32_t j = 0; j < group; ++j)
      sum += to.sums[(i * to.heads + std::int64_t{blockIdx.z} * group + j) * size + e];
  if (to.outside != nullptr) sum += to.outside[at];
  if (to.total != nullptr) to.total[at] = sum;
  if (to.copy != nullptr) to.copy[at] = sum;
}

// The gradient of the decay at every row, from its terms and all behind it: dg_t = sum over u >= t of the terms, plus
// the final state times its gradient. Grid: (pieces, kv heads, groups of columns).
template <class R>
__global__ void decay_gradient_kernel(const __grid_constant__ Call call, const double* terms, const R* final_state,
                                      const R* d_final) {
  __shared__ double sums[1024];
  const PieceView& piece = call.pieces[blockIdx.x];
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int columns = call.decay_columns();
  const Columns own(columns);
  const int column = static_cast<int>(blockIdx.z) * Columns::in_block(columns) + own.column;
  const bool exists = column < columns;
  const std::int64_t each = (piece.nk + own.lanes - 1) / own.lanes, begin = own.lane * each;
  const std::int64_t end = min(begin + each, piece.nk);
  const auto term = [&](std::int64_t t) {
    return terms[((piece.first_k + t) * call.kv_heads + kv_head) * columns + column];
  };
  double sum = 0;
  for (std::int64_t t = begin; exists && t < end; ++t) sum += term(t);
  const std::int64_t state = (std::int64_t{blockIdx.x} * call.kv_heads + kv_head) * call.state_size();
  double last = 0;
  if (exists && d_final != nullptr) {  // this thread's share of the columns of the state's rows
    const std::int64_t rows = columns == 1 ? call.d_k : 1;
    for (std::int64_t e = own.lane; e < rows * call.width; e += own.lanes) {
      const std::int64_t i = state + (columns == 1 ? e : std::int64_t{column} * call.width + e);
      last += static_cast<double>(final_state[i]) * d_final[i];
    }
  }
  sums[threadIdx.x] = last;
  __syncthreads();
  double behind = 0;
  for (int l = 0; l < own.lanes; ++l) behind += sums[own.thread(l)];
  __syncthreads();
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int l = own.lanes - 1; l > own.lane; --l) behind += sums[own.thread(l)];
  for (std::int64_t t = end - 1; exists && t >= begin; --t) {
    behind += term(t);
    static_cast<R*>(call.d_log_decay.data)[offset_of(call.d_log_decay, piece.batch, piece.k0 + t, kv_head) + column] =
        static_cast<R>(behind);
  }
}

}  // namespace fovea::scan::cuda

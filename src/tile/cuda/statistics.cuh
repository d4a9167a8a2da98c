#pragma once

#include "policy/softmax.h"
#include "core/cuda/storage.cuh"
#include "tile/cuda/view.h"

namespace fovea::tile::cuda {

// delta = rowsum(do * o) - d_lse, beside the log-sum-exp as backward wants it. kLanes lanes take a row of a head; heads
// that lie side by side are read by neighbouring lanes.
template <class R, int kLanes, class Sum>
__device__ void write_statistic(const Call& call, RowStatistic<R>* to, Sum&& row_sum) {
  const PieceView& piece = call.pieces[blockIdx.y];
  const std::int64_t index = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  const std::int64_t i = index / call.heads, head = index % call.heads;
  const bool exists =
      i < piece.nq && (piece.kv_head < 0 || piece.kv_head == call.kv_head_of(static_cast<std::int32_t>(head)));
  const std::int64_t row = exists ? piece.query_row(i) : 0;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  R sum = exists ? row_sum(offset_of(call.o, piece.batch, row, head), offset_of(call.d_o, piece.batch, row, head), lane)
                 : R{0};
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (!exists || lane != 0) return;
  const R lse = static_cast<const R*>(call.lse.data)[offset_of(call.lse, piece.batch, row, head)];
  if (call.d_lse.data != nullptr)
    sum -= static_cast<const R*>(call.d_lse.data)[offset_of(call.d_lse, piece.batch, row, head)];
  const bool empty = lse == -math::kInfinity<R>;
  to[head * call.rows + piece.first_row + i] = {Softmax::reopen(lse), empty ? R{0} : sum};
}

template <class R>
__global__ void statistics_kernel(const __grid_constant__ Call call, RowStatistic<R>* to) {
  write_statistic<R, 32>(call, to, [&](std::int64_t o, std::int64_t d_o, int lane) {
    R sum = 0;
    for (std::int32_t c = lane; c < call.d_v; c += 32)
      sum += load_as<R>(call.o.data, call.dtype, o + c) * load_as<R>(call.d_o.data, call.dtype, d_o + c);
    return sum;
  });
}

// Rows of whole 16-byte pieces.
template <class T, int kLanes>
__global__ void half_statistics_kernel(const __grid_constant__ Call call, RowStatistic<float>* to) {
  write_statistic<float, kLanes>(call, to, [&](std::int64_t o, std::int64_t d_o, int lane) {
    float sum = 0;
    for (std::int32_t c = lane * 8; c < call.d_v; c += kLanes * 8) {
      const uint4 a = *reinterpret_cast<const uint4*>(static_cast<const T*>(call.o.data) + o + c);
      const uint4 b = *reinterpret_cast<const uint4*>(static_cast<const T*>(call.d_o.data) + d_o + c);
      const T* x = reinterpret_cast<const T*>(&a);
      const T* y = reinterpret_cast<const T*>(&b);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum = fmaf(static_cast<float>(x[i]), static_cast<float>(y[i]), sum);
    }
    return sum;
  });
}

}  // namespace fovea::tile::cuda

#pragma once

#include "policy/softmax.h"
#include "tile/cuda/storage.cuh"
#include "tile/cuda/view.h"

namespace fovea::tile::cuda {

// delta = rowsum(do * o) - d_lse, beside the log-sum-exp as backward wants it. A warp takes a row of a head.
template <class R>
__global__ void statistics_kernel(const __grid_constant__ Call call, RowStatistic<R>* to) {
  const PieceView& piece = call.pieces[blockIdx.z];
  const std::int64_t i = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  const auto head = static_cast<std::int64_t>(blockIdx.y);
  if (i >= piece.nq) return;
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(static_cast<std::int32_t>(head))) return;
  const std::int64_t row = piece.query_row(i);
  const std::int64_t o = offset_of(call.o, piece.batch, row, head), d_o = offset_of(call.d_o, piece.batch, row, head);
  R sum = 0;
  for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x) % 32; c < call.d_v; c += 32)
    sum += load_as<R>(call.o.data, call.dtype, o + c) * load_as<R>(call.d_o.data, call.dtype, d_o + c);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 != 0) return;
  const R lse = static_cast<const R*>(call.lse.data)[offset_of(call.lse, piece.batch, row, head)];
  if (call.d_lse.data != nullptr)
    sum -= static_cast<const R*>(call.d_lse.data)[offset_of(call.d_lse, piece.batch, row, head)];
  const bool empty = lse == -math::kInfinity<R>;
  to[head * call.rows + piece.first_row + i] = {Softmax::reopen(lse), empty ? R{0} : sum};
}

}  // namespace fovea::tile::cuda

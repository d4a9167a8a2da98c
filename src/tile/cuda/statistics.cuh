#pragma once

#include "core/cuda/storage.cuh"
#include "policy/softmax.h"
#include "tile/cuda/view.h"

namespace fovea::tile::cuda {

// A row of a head.
struct RowPlace {
  std::int64_t batch, row, head;
  __device__ std::int64_t in(const In& array) const { return offset_of(array, batch, row, head); }
};

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
  R sum = exists ? row_sum(RowPlace{piece.batch, row, head}, lane) : R{0};
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
  write_statistic<R, 32>(call, to, [&](const RowPlace& at, int lane) {
    const auto load = [&](const In& x, std::int32_t c) { return load_as<R>(x.data, call.output_type, at.in(x) + c); };
    const In& d_o = call.d_o;
    R sum = 0;
    for (std::int32_t c = lane; c < call.d_v; c += 32) {
      const R o = call.rest.data == nullptr ? load(call.o, c) : load(call.o, c) + load(call.rest, c);
      sum += o * load_as<R>(d_o.data, call.gradient_type, at.in(d_o) + c);
    }
    return sum;
  });
}

// Gradients of outputs in f32, as half types: four numbers a thread. Grid: (blocks, pieces).
__global__ void narrow_kernel(const __grid_constant__ Call call, const __grid_constant__ Out to) {
  const PieceView& piece = call.pieces[blockIdx.y];
  const std::int64_t fours = call.d_v / 4, e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t i = e / fours / call.heads, head = e / fours % call.heads, column = e % fours * 4;
  if (i >= piece.nq) return;
  if (piece.kv_head >= 0 && piece.kv_head != call.kv_head_of(static_cast<std::int32_t>(head))) return;
  const std::int64_t row = piece.query_row(i), at = offset_of(to, piece.batch, row, head) + column;
  const float4 x = *reinterpret_cast<const float4*>(static_cast<const float*>(call.d_o.data) +
                                                    offset_of(call.d_o, piece.batch, row, head) + column);
  const float all[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int c = 0; c < 4; ++c) store_as<float>(to.data, call.dtype, at + c, all[c]);
}

// Rows of whole 16-byte pieces.
template <class T, int kLanes>
__global__ void half_statistics_kernel(const __grid_constant__ Call call, RowStatistic<float>* to) {
  write_statistic<float, kLanes>(call, to, [&](const RowPlace& at, int lane) {
    const auto load = [&](const In& x, std::int32_t c) {
      return *reinterpret_cast<const uint4*>(static_cast<const T*>(x.data) + at.in(x) + c);
    };
    float sum = 0;
    for (std::int32_t c = lane * 8; c < call.d_v; c += kLanes * 8) {
      const uint4 a = load(call.o, c), b = load(call.d_o, c);
      const uint4 r = call.rest.data == nullptr ? uint4{0, 0, 0, 0} : load(call.rest, c);
      const T* x = reinterpret_cast<const T*>(&a);
      const T* y = reinterpret_cast<const T*>(&b);
      const T* z = reinterpret_cast<const T*>(&r);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sum = fmaf(static_cast<float>(x[i]) + static_cast<float>(z[i]), static_cast<float>(y[i]), sum);
    }
    return sum;
  });
}

}  // namespace fovea::tile::cuda

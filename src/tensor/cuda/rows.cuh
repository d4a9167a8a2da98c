#pragma once

#include "tensor/cuda/elements.cuh"

namespace fovea::device {

// The lanes of a warp that this one works with: kLanes neighbours, or all.
template <int kLanes>
__device__ inline unsigned neighbours() {
  if constexpr (kLanes >= 32)
    return 0xffffffffu;
  else
    return ((1u << kLanes) - 1) << (threadIdx.x % 32 / kLanes * kLanes);
}

// The sum and the largest of the numbers of a warp, or of kLanes of its lanes; the same bits in all of them.
template <int kLanes = 32, class R>
__device__ inline R warp_sum(R x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(neighbours<kLanes>(), x, step);
  return x;
}
// A NaN is larger than anything.
template <class R>
__device__ inline R larger(R a, R b) {
  return a > b || a != a ? a : b;
}
template <int kLanes = 32, class R>
__device__ inline R warp_max(R x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x = larger(x, __shfl_xor_sync(neighbours<kLanes>(), x, step));
  return x;
}

// Lanes that take a row together: some neighbours of a warp, a warp, or all warps of a block.
template <int kLanes>
struct RowGroup {
  static constexpr int lanes = kLanes;
  std::int64_t row;
  int lane;

  template <class R>
  __device__ R sum(R x) const {
    return across(warp_sum<kInWarp>(x), [](R a, R b) { return a + b; });
  }
  template <class R>
  __device__ R max(R x) const {
    return across(warp_max<kInWarp>(x), [](R a, R b) { return larger(a, b); });
  }
  __device__ void sync() const {
    if constexpr (kLanes <= 32)
      __syncwarp(neighbours<kLanes>());
    else
      __syncthreads();
  }

 private:
  static constexpr int kInWarp = kLanes < 32 ? kLanes : 32;

  // Joins the numbers of the warps, in their order.
  template <class R, class Join>
  __device__ static R across(R mine, const Join& join) {
    if constexpr (kLanes > 32) {
      __shared__ R of_warp[kLanes / 32];
      __syncthreads();  // the last use is over
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
      __syncthreads();
      mine = of_warp[0];
      for (int w = 1; w < kLanes / 32; ++w) mine = join(mine, of_warp[w]);
    }
    return mine;
  }
};

template <int kLanes, class F>
__global__ void rows_kernel(F f, std::int64_t count) {
  constexpr int kRows = kThreads / kLanes;
  const int in_block = static_cast<int>(threadIdx.x) / kLanes;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + in_block; row < count;
       row += std::int64_t{gridDim.x} * kRows) {
    const RowGroup<kLanes> group{row, static_cast<int>(threadIdx.x) % kLanes};
    f(group);
  }
}

inline constexpr std::int64_t kWidestOfWarp = 1024;

template <class F>
void rows(const Queue& queue, std::int64_t count, std::int64_t width, const F& f) {
  if (count <= 0) return;
  if (width <= kWidestOfWarp)
    rows_kernel<32><<<blocks_for(count, kThreads / 32), kThreads, 0, queue.stream>>>(f, count);
  else
    rows_kernel<kThreads><<<blocks_for(count, 1), kThreads, 0, queue.stream>>>(f, count);
  check_cuda(cudaGetLastError(), "a loop over rows");
}

}  // namespace fovea::device

#pragma once

#include "tile/cuda/mma_backward.cuh"
#include "tile/cuda/mma_forward.cuh"
#include "tile/cuda/mma_launch.h"

namespace fovea::tile::cuda {

template <class Kernel>
void launch_mma(const Launch& launch, const Call& call, dim3 grid, Kernel* kernel, int bytes,
                int threads = kMmaThreads) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "tiled attention");
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), launch.stream>>>(call);
  check_cuda(cudaGetLastError(), "tiled attention");
}

template <class T, int kWidth, int kTiles, bool kGeneral>
void run_mma_forward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma(launch, call, grid, mma_forward_kernel<T, kWidth, kTiles, kGeneral>,
             MmaForward<T, kWidth, kTiles, kGeneral>::kBytes);
}
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
void run_mma_backward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma(launch, call, grid, mma_backward_kernel<T, kWidth, kTiles, kGeneral, kRole>,
             MmaBackward<T, kWidth, kTiles, kGeneral, kRole>::kBytes);
}

}  // namespace fovea::tile::cuda

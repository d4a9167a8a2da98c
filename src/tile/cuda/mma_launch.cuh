#pragma once

#include <atomic>
#include <cstdint>

#include "tile/cuda/mma_backward.cuh"
#include "tile/cuda/mma_forward.cuh"
#include "tile/cuda/mma_launch.h"

namespace fovea::tile::cuda {

// Asks for a kernel's shared memory, once on each device.
template <auto* kKernel>
void allow_shared_memory(int bytes) {
  static std::atomic<std::uint64_t> asked{0};
  int device = 0;
  check_cuda(cudaGetDevice(&device), "the current device");
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if ((asked.load(std::memory_order_relaxed) & bit) != 0) return;
  check_cuda(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "tiled attention");
  asked |= bit;
}

template <auto* kKernel>
void launch_mma(const Launch& launch, const Call& call, dim3 grid, int bytes, int threads) {
  allow_shared_memory<kKernel>(bytes);
  kKernel<<<grid, threads, static_cast<std::size_t>(bytes), launch.stream>>>(call);
  check_cuda(cudaGetLastError(), "tiled attention");
}

template <class T, int kWidth, int kTiles, bool kGeneral>
void run_mma_forward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma<mma_forward_kernel<T, kWidth, kTiles, kGeneral>>(
      launch, call, grid, MmaForward<T, kWidth, kTiles, kGeneral>::kBytes, kMmaThreads);
}
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
void run_mma_backward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma<mma_backward_kernel<T, kWidth, kTiles, kGeneral, kRole>>(
      launch, call, grid, MmaBackward<T, kWidth, kTiles, kGeneral, kRole>::kBytes, kMmaThreads);
}

template <class T, int kWidth, int kTiles, bool kGeneral>
inline constexpr MmaKernel kMmaForward{kWidth,
                                       kTiles,
                                       MmaForward<T, kWidth, kTiles, kGeneral>::kBytes,
                                       kGeneral ? Variant::general : Variant::softmax,
                                       Role::forward,
                                       run_mma_forward<T, kWidth, kTiles, kGeneral>};
template <class T, int kWidth, int kTiles, bool kGeneral, Role kRole>
inline constexpr MmaKernel kMmaBackward{kWidth,
                                        kTiles,
                                        MmaBackward<T, kWidth, kTiles, kGeneral, kRole>::kBytes,
                                        kGeneral ? Variant::general : Variant::softmax,
                                        kRole,
                                        run_mma_backward<T, kWidth, kTiles, kGeneral, kRole>};

}  // namespace fovea::tile::cuda

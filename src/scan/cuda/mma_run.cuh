#pragma once

#include <algorithm>

#include "core/cuda/slabs.h"
#include "scan/cuda/mma_kernels.cuh"

namespace fovea::scan::cuda {

template <int kD, class Pass, int kBlocks>
__global__ void __launch_bounds__(2 * kD, kBlocks) mma_kernel(const __grid_constant__ MmaCall mma) {
  Pass::run(mma);
}

template <int kD, class Pass, int kBlocks>
void launch_mma(const Launch& launch, const MmaCall& mma, std::int32_t cuts) {
  auto* kernel = mma_kernel<kD, Pass, kBlocks>;
  constexpr int kBytes = Pass::Memory::kBytes;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "linear attention");
  each_slab(cuts, [&](std::int64_t first, unsigned count) {
    MmaCall part = mma;
    part.cuts += first;
    part.first_cut = static_cast<std::int32_t>(first);
    kernel<<<dim3(static_cast<unsigned>(mma.call.heads), count), 2 * kD, kBytes, launch.stream>>>(part);
  });
  check_cuda(cudaGetLastError(), "linear attention");
}

template <int kD, bool kScan, bool kDivides>
void launch_step(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step) {
  constexpr int kMany = kD == 32 ? 10 : (kD == 64 ? 3 : 1), kFew = kD == 32 ? 8 : (kD == 64 ? 2 : 1);
  constexpr int kForward = kScan ? kFew : kMany;
  switch (step) {
    case MmaStep::sum_keys: return launch_mma<kD, MmaSum<kD, false, kDivides>, kMany>(launch, mma, cuts);
    case MmaStep::sum_queries: return launch_mma<kD, MmaSum<kD, true, kDivides>, kMany>(launch, mma, cuts);
    case MmaStep::forward: return launch_mma<kD, MmaForward<kD, kScan, kDivides>, kForward>(launch, mma, cuts);
    case MmaStep::queries: return launch_mma<kD, MmaQueries<kD, kScan, kDivides>, kFew>(launch, mma, cuts);
    case MmaStep::keys: return launch_mma<kD, MmaKeys<kD, kScan, kDivides>, kFew>(launch, mma, cuts);
  }
}
template <int kD, bool kDivides>
void run_mma(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step, bool scans) {
  scans ? launch_step<kD, true, kDivides>(launch, mma, cuts, step)
        : launch_step<kD, false, kDivides>(launch, mma, cuts, step);
}

// The most that a step has.
template <int kD, bool kScan, bool kDivides>
constexpr int step_bytes(bool backward) {
  return backward
             ? std::max({MmaSum<kD, false, kDivides>::Memory::kBytes, MmaSum<kD, true, kDivides>::Memory::kBytes,
                         MmaQueries<kD, kScan, kDivides>::Memory::kBytes, MmaKeys<kD, kScan, kDivides>::Memory::kBytes})
             : std::max(MmaSum<kD, false, kDivides>::Memory::kBytes, MmaForward<kD, kScan, kDivides>::Memory::kBytes);
}
template <int kD, bool kDivides>
int mma_bytes(bool backward, bool scans) {
  return scans ? step_bytes<kD, true, kDivides>(backward) : step_bytes<kD, false, kDivides>(backward);
}

}  // namespace fovea::scan::cuda

#pragma once

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
  const dim3 grid(static_cast<unsigned>(mma.call.heads), static_cast<unsigned>(cuts));
  kernel<<<grid, 2 * kD, kBytes, launch.stream>>>(mma);
  check_cuda(cudaGetLastError(), "linear attention");
}

template <int kD, bool kScan>
void launch_step(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step) {
  constexpr int kMany = kD == 32 ? 10 : (kD == 64 ? 3 : 1), kFew = kD == 32 ? 8 : (kD == 64 ? 2 : 1);
  switch (step) {
    case MmaStep::sum_keys: return launch_mma<kD, MmaSum<kD, false>, kMany>(launch, mma, cuts);
    case MmaStep::sum_queries: return launch_mma<kD, MmaSum<kD, true>, kMany>(launch, mma, cuts);
    case MmaStep::forward: return launch_mma < kD, MmaForward<kD, kScan>, kScan ? kFew : kMany > (launch, mma, cuts);
    case MmaStep::queries: return launch_mma<kD, MmaQueries<kD, kScan>, kFew>(launch, mma, cuts);
    case MmaStep::keys: return launch_mma<kD, MmaKeys<kD, kScan>, kFew>(launch, mma, cuts);
  }
}

}  // namespace fovea::scan::cuda

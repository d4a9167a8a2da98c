#include "scan/cuda/mma_norm.cuh"

namespace fovea::scan::cuda {
namespace {

__global__ void __launch_bounds__(32 * MmaNorm::kMostHeads, 1) norm_kernel(const __grid_constant__ MmaCall mma) {
  MmaNorm::run(mma);
}

}  // namespace

bool takes_norm(const Call& call) {
  return call.rms_norm && !call.causal && call.d_v == MmaNorm::kD && call.heads <= MmaNorm::kMostHeads;
}

void run_mma_norm(const Launch& launch, const MmaCall& mma, std::int32_t cuts) {
  const int bytes = MmaNorm::bytes(mma.call.heads);
  check_cuda(cudaFuncSetAttribute(norm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "linear attention");
  norm_kernel<<<static_cast<unsigned>(cuts), 32 * mma.call.heads, bytes, launch.stream>>>(mma);
  check_cuda(cudaGetLastError(), "norm of linear attention");
}

}  // namespace fovea::scan::cuda

#include "scan/cuda/mma_norm.cuh"

namespace fovea::scan::cuda {
namespace {

template <int kD>
__global__ void __launch_bounds__(32 * MmaNorm<kD>::kMostHeads, 1) norm_kernel(const __grid_constant__ MmaCall mma) {
  MmaNorm<kD>::run(mma);
}

template <int kD>
void launch_norm(const Launch& launch, const MmaCall& mma, std::int32_t cuts) {
  auto* kernel = norm_kernel<kD>;
  const int bytes = MmaNorm<kD>::bytes(mma.call.heads);
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "linear attention");
  kernel<<<static_cast<unsigned>(cuts), 32 * mma.call.heads, bytes, launch.stream>>>(mma);
  check_cuda(cudaGetLastError(), "norm of linear attention");
}

}  // namespace

bool takes_norm(const Call& call) {
  const bool size = call.d_v == 32 || call.d_v == 64;
  if (!call.rms_norm || call.causal || call.output_type != DType::bf16 || !size || call.heads > MmaNorm<64>::kMostHeads)
    return false;
  const int bytes = call.d_v == 32 ? MmaNorm<32>::bytes(call.heads) : MmaNorm<64>::bytes(call.heads);
  return bytes <= current_card(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

void run_mma_norm(const Launch& launch, const MmaCall& mma, std::int32_t cuts) {
  mma.call.d_v == 32 ? launch_norm<32>(launch, mma, cuts) : launch_norm<64>(launch, mma, cuts);
}

}  // namespace fovea::scan::cuda

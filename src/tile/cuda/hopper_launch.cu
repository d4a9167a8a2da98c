#include "tile/cuda/hopper_backward.cuh"
#include "tile/cuda/hopper_forward.cuh"
#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {
namespace {

template <class T, int kWidth, int kGroups>
void run_hopper_forward(const Launch& launch, const Call& call, dim3 grid) {
  using Kernel = HopperForward<T, kWidth, kGroups>;
  launch_mma<hopper_forward_kernel<T, kWidth, kGroups>>(launch, call, grid, Kernel::kBytes, Kernel::kThreads);
}

template <class T, Role kRole>
void run_hopper_backward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma<hopper_backward_kernel<T, kRole>>(launch, call, grid, HopperBackward<T, kRole>::kBytes, 256);
}

template <class T, int kWidth, int kGroups>
constexpr MmaKernel kHopperForward{kWidth,          kGroups,       HopperForward<T, kWidth, kGroups>::kBytes,
                                   Variant::hopper, Role::forward, run_hopper_forward<T, kWidth, kGroups>};
template <class T, Role kRole>
constexpr MmaKernel kHopperBackward{
    64, 2, HopperBackward<T, kRole>::kBytes, Variant::hopper, kRole, run_hopper_backward<T, kRole>};

}  // namespace

extern const MmaKernel hopper_kernels_bf16[4], hopper_kernels_f16[4];
const MmaKernel hopper_kernels_bf16[4] = {kHopperForward<bfloat16, 64, 1>, kHopperForward<bfloat16, 128, 2>,
                                          kHopperBackward<bfloat16, Role::row>,
                                          kHopperBackward<bfloat16, Role::column>};
const MmaKernel hopper_kernels_f16[4] = {kHopperForward<float16, 64, 1>, kHopperForward<float16, 128, 2>,
                                         kHopperBackward<float16, Role::row>, kHopperBackward<float16, Role::column>};

}  // namespace fovea::tile::cuda

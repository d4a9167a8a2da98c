#include "tile/cuda/hopper_forward.cuh"
#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {
namespace {

template <class T, int kWidth, int kGroups>
void run_hopper_forward(const Launch& launch, const Call& call, dim3 grid) {
  using Kernel = HopperForward<T, kWidth, kGroups>;
  launch_mma(launch, call, grid, hopper_forward_kernel<T, kWidth, kGroups>, Kernel::kBytes, Kernel::kThreads);
}

}  // namespace

extern const MmaKernel hopper_kernels_bf16[3], hopper_kernels_f16[3];
const MmaKernel hopper_kernels_bf16[3] = {
    {64, 2, Variant::hopper, Role::forward, run_hopper_forward<bfloat16, 64, 2>},
    {64, 1, Variant::hopper, Role::forward, run_hopper_forward<bfloat16, 64, 1>},
    {128, 2, Variant::hopper, Role::forward, run_hopper_forward<bfloat16, 128, 2>}};
const MmaKernel hopper_kernels_f16[3] = {{64, 2, Variant::hopper, Role::forward, run_hopper_forward<float16, 64, 2>},
                                         {64, 1, Variant::hopper, Role::forward, run_hopper_forward<float16, 64, 1>},
                                         {128, 2, Variant::hopper, Role::forward, run_hopper_forward<float16, 128, 2>}};

}  // namespace fovea::tile::cuda

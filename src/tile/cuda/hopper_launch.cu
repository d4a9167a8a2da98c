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

}  // namespace

extern const MmaKernel hopper_kernels_bf16[4], hopper_kernels_f16[4];
const MmaKernel hopper_kernels_bf16[4] = {
    {64, 1, Variant::hopper, Role::forward, run_hopper_forward<bfloat16, 64, 1>},
    {128, 2, Variant::hopper, Role::forward, run_hopper_forward<bfloat16, 128, 2>},
    {64, 2, Variant::hopper, Role::row, run_hopper_backward<bfloat16, Role::row>},
    {64, 2, Variant::hopper, Role::column, run_hopper_backward<bfloat16, Role::column>}};
const MmaKernel hopper_kernels_f16[4] = {
    {64, 1, Variant::hopper, Role::forward, run_hopper_forward<float16, 64, 1>},
    {128, 2, Variant::hopper, Role::forward, run_hopper_forward<float16, 128, 2>},
    {64, 2, Variant::hopper, Role::row, run_hopper_backward<float16, Role::row>},
    {64, 2, Variant::hopper, Role::column, run_hopper_backward<float16, Role::column>}};

}  // namespace fovea::tile::cuda

#include <array>

#include "tile/cuda/hopper_backward.cuh"
#include "tile/cuda/hopper_forward.cuh"
#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {
namespace {

template <class T, int kWidth>
void run_hopper_forward(const Launch& launch, const Call& call, dim3 grid) {
  using Kernel = HopperForward<T, kWidth>;
  launch_mma<hopper_forward_kernel<T, kWidth>>(launch, call, grid, Kernel::kBytes, kMmaThreads);
}

template <class T, int kWidth, Role kRole>
void run_hopper_backward(const Launch& launch, const Call& call, dim3 grid) {
  using Kernel = HopperBackward<T, kWidth, kRole>;
  launch_mma<hopper_backward_kernel<T, kWidth, kRole>>(launch, call, grid, Kernel::kBytes, kMmaThreads);
}

template <class T, int kWidth>
constexpr MmaKernel kHopperForward{
    kWidth, 1, HopperForward<T, kWidth>::kBytes, Variant::hopper, Role::forward, run_hopper_forward<T, kWidth>};
template <class T, int kWidth, Role kRole>
constexpr MmaKernel kHopperBackward{kWidth,          1,     HopperBackward<T, kWidth, kRole>::kBytes,
                                    Variant::hopper, kRole, run_hopper_backward<T, kWidth, kRole>};

template <class T>
constexpr std::array<MmaKernel, kHopperKernels> kKernels{kHopperForward<T, 32>,
                                                         kHopperForward<T, 64>,
                                                         kHopperForward<T, 128>,
                                                         kHopperBackward<T, 32, Role::row>,
                                                         kHopperBackward<T, 32, Role::column>,
                                                         kHopperBackward<T, 64, Role::row>,
                                                         kHopperBackward<T, 64, Role::column>,
                                                         kHopperBackward<T, 128, Role::row>,
                                                         kHopperBackward<T, 128, Role::column>};

}  // namespace

extern const std::array<MmaKernel, kHopperKernels> hopper_kernels_bf16, hopper_kernels_f16;
const std::array<MmaKernel, kHopperKernels> hopper_kernels_bf16 = kKernels<bfloat16>;
const std::array<MmaKernel, kHopperKernels> hopper_kernels_f16 = kKernels<float16>;

}  // namespace fovea::tile::cuda

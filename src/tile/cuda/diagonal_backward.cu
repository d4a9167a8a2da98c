#include "tile/cuda/diagonal_backward.cuh"

#include <array>

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {
namespace {

template <class T, int kWidth>
void run_diagonal_backward(const Launch& launch, const Call& call, dim3 grid) {
  launch_mma<diagonal_backward_kernel<T, kWidth>>(launch, call, grid, DiagonalBackward<T, kWidth>::kBytes, kMmaThreads);
}
template <class T, int kWidth>
constexpr MmaKernel kDiagonalBackward{kWidth,           1,         DiagonalBackward<T, kWidth>::kBytes,
                                      Variant::softmax, Role::row, run_diagonal_backward<T, kWidth>};
template <class T>
constexpr std::array<MmaKernel, kDiagonalKernels> kKernels{kDiagonalBackward<T, 32>, kDiagonalBackward<T, 64>,
                                                           kDiagonalBackward<T, 128>};

}  // namespace

extern const std::array<MmaKernel, kDiagonalKernels> diagonal_kernels_bf16, diagonal_kernels_f16;
const std::array<MmaKernel, kDiagonalKernels> diagonal_kernels_bf16 = kKernels<bfloat16>;
const std::array<MmaKernel, kDiagonalKernels> diagonal_kernels_f16 = kKernels<float16>;

}  // namespace fovea::tile::cuda

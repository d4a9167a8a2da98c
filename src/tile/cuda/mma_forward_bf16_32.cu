#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_bf16_32[3];
const MmaKernel mma_forward_bf16_32[3] = {kMmaForward<bfloat16, 32, 2, false>, kMmaForward<bfloat16, 32, 1, false>,
                                          kMmaForward<bfloat16, 32, 1, true>};

}  // namespace fovea::tile::cuda

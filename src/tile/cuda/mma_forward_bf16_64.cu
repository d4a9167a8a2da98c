#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_bf16_64[3];
const MmaKernel mma_forward_bf16_64[3] = {kMmaForward<bfloat16, 64, 2, false>, kMmaForward<bfloat16, 64, 1, false>,
                                          kMmaForward<bfloat16, 64, 1, true>};

}  // namespace fovea::tile::cuda

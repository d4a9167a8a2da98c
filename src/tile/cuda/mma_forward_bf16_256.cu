#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_bf16_256[1];
const MmaKernel mma_forward_bf16_256[1] = {kMmaForward<bfloat16, 256, 1, true>};

}  // namespace fovea::tile::cuda

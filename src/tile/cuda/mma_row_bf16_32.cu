#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_row_bf16_32[3];
const MmaKernel mma_row_bf16_32[3] = {kMmaBackward<bfloat16, 32, 2, false, Role::row>,
                                      kMmaBackward<bfloat16, 32, 1, false, Role::row>,
                                      kMmaBackward<bfloat16, 32, 1, true, Role::row>};

}  // namespace fovea::tile::cuda

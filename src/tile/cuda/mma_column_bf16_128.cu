#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_column_bf16_128[2];
const MmaKernel mma_column_bf16_128[2] = {kMmaBackward<bfloat16, 128, 1, false, Role::column>,
                                          kMmaBackward<bfloat16, 128, 1, true, Role::column>};

}  // namespace fovea::tile::cuda

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_row_f16_128[2];
const MmaKernel mma_row_f16_128[2] = {kMmaBackward<float16, 128, 1, false, Role::row>,
                                      kMmaBackward<float16, 128, 1, true, Role::row>};

}  // namespace fovea::tile::cuda

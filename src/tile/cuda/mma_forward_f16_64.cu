#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_f16_64[3];
const MmaKernel mma_forward_f16_64[3] = {kMmaForward<float16, 64, 2, false>, kMmaForward<float16, 64, 1, false>,
                                         kMmaForward<float16, 64, 1, true>};

}  // namespace fovea::tile::cuda

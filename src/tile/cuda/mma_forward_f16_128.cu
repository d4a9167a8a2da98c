#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_f16_128[3];
const MmaKernel mma_forward_f16_128[3] = {kMmaForward<float16, 128, 2, false>, kMmaForward<float16, 128, 1, false>,
                                          kMmaForward<float16, 128, 1, true>};

}  // namespace fovea::tile::cuda

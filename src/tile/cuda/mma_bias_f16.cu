#include "tile/cuda/mma_bias.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_bias_f16[3];
const MmaKernel mma_bias_f16[3] = {kMmaBias<float16, 32>, kMmaBias<float16, 64>, kMmaBias<float16, 128>};

}  // namespace fovea::tile::cuda

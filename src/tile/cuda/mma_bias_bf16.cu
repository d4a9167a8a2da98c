#include "tile/cuda/mma_bias.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_bias_bf16[3];
const MmaKernel mma_bias_bf16[3] = {kMmaBias<bfloat16, 32>, kMmaBias<bfloat16, 64>, kMmaBias<bfloat16, 128>};

}  // namespace fovea::tile::cuda

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_bf16_128[3];
const MmaKernel mma_forward_bf16_128[3] = {
    {128, 2, Variant::softmax, Role::forward, run_mma_forward<bfloat16, 128, 2, false>},
    {128, 1, Variant::softmax, Role::forward, run_mma_forward<bfloat16, 128, 1, false>},
    {128, 1, Variant::general, Role::forward, run_mma_forward<bfloat16, 128, 1, true>}};

}  // namespace fovea::tile::cuda

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_f16_32[3];
const MmaKernel mma_forward_f16_32[3] = {
    {32, 2, Variant::softmax, Role::forward, run_mma_forward<float16, 32, 2, false>},
    {32, 1, Variant::softmax, Role::forward, run_mma_forward<float16, 32, 1, false>},
    {32, 1, Variant::general, Role::forward, run_mma_forward<float16, 32, 1, true>}};

}  // namespace fovea::tile::cuda

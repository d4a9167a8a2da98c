#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_forward_f16_64[3];
const MmaKernel mma_forward_f16_64[3] = {
    {64, 2, Variant::softmax, Role::forward, run_mma_forward<float16, 64, 2, false>},
    {64, 1, Variant::softmax, Role::forward, run_mma_forward<float16, 64, 1, false>},
    {64, 1, Variant::general, Role::forward, run_mma_forward<float16, 64, 1, true>}};

}  // namespace fovea::tile::cuda

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_row_f16_32[3];
const MmaKernel mma_row_f16_32[3] = {
    {32, 2, Variant::softmax, Role::row, run_mma_backward<float16, 32, 2, false, Role::row>},
    {32, 1, Variant::softmax, Role::row, run_mma_backward<float16, 32, 1, false, Role::row>},
    {32, 1, Variant::general, Role::row, run_mma_backward<float16, 32, 1, true, Role::row>}};

}  // namespace fovea::tile::cuda

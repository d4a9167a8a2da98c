#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_column_f16_32[3];
const MmaKernel mma_column_f16_32[3] = {kMmaBackward<float16, 32, 2, false, Role::column>,
                                        kMmaBackward<float16, 32, 1, false, Role::column>,
                                        kMmaBackward<float16, 32, 1, true, Role::column>};

}  // namespace fovea::tile::cuda

#include "tile/cuda/mma_launch.cuh"

namespace fovea::tile::cuda {

extern const MmaKernel mma_column_f16_64[3];
const MmaKernel mma_column_f16_64[3] = {kMmaBackward<float16, 64, 2, false, Role::column>,
                                        kMmaBackward<float16, 64, 1, false, Role::column>,
                                        kMmaBackward<float16, 64, 1, true, Role::column>};

}  // namespace fovea::tile::cuda

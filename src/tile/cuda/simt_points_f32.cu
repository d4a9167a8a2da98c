#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_points_f32;
const SimtKernels simt_points_f32 = kSimtKernels<float, Points<float>>;

}  // namespace fovea::tile::cuda

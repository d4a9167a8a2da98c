#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_points_f64;
const SimtKernels simt_points_f64 = kSimtKernels<double, Points<double>>;

}  // namespace fovea::tile::cuda

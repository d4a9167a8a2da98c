#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_shares_f64;
const SimtKernels simt_shares_f64 = kSimtKernels<double, Shares<double>>;

}  // namespace fovea::tile::cuda

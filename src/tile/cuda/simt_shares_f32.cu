#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_shares_f32;
const SimtKernels simt_shares_f32 = kSimtKernels<float, Shares<float>>;

}  // namespace fovea::tile::cuda

#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_rules_f32;
const SimtKernels simt_rules_f32 = kSimtKernels<float, RuleWeights<float>>;

}  // namespace fovea::tile::cuda

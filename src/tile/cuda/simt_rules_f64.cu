#include "tile/cuda/simt_launch.cuh"

namespace fovea::tile::cuda {

extern const SimtKernels simt_rules_f64;
const SimtKernels simt_rules_f64 = kSimtKernels<double, RuleWeights<double>>;

}  // namespace fovea::tile::cuda

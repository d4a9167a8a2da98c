#include "scan/cuda/walk.cuh"

namespace fovea::scan::cuda {

void run_walk_f32(const Launch& launch, const Call& call, const Walk& walk) { run_walk_as<float>(launch, call, walk); }

}  // namespace fovea::scan::cuda

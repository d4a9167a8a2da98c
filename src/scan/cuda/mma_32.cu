#include "scan/cuda/mma_run.cuh"

namespace fovea::scan::cuda {

template <>
void run_mma<32>(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step, bool scans) {
  scans ? launch_step<32, true>(launch, mma, cuts, step) : launch_step<32, false>(launch, mma, cuts, step);
}

template <>
int mma_bytes<32>(bool backward, bool scans) {
  return scans ? step_bytes<32, true>(backward) : step_bytes<32, false>(backward);
}

}  // namespace fovea::scan::cuda

#include "scan/cuda/mma_run.cuh"

namespace fovea::scan::cuda {

template <>
void run_mma<128>(const Launch& launch, const MmaCall& mma, std::int32_t cuts, MmaStep step, bool scans) {
  scans ? launch_step<128, true>(launch, mma, cuts, step) : launch_step<128, false>(launch, mma, cuts, step);
}

template <>
int mma_bytes<128>(bool backward, bool scans) {
  return scans ? step_bytes<128, true>(backward) : step_bytes<128, false>(backward);
}

}  // namespace fovea::scan::cuda

#include "scan/cuda/mma_run.cuh"

namespace fovea::scan::cuda {

template void run_mma<128, true>(const Launch&, const MmaCall&, std::int32_t, MmaStep, bool);
template int mma_bytes<128, true>(bool, bool);

}  // namespace fovea::scan::cuda

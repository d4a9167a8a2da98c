#include "scan/cuda/mma_run.cuh"

namespace fovea::scan::cuda {

template void run_mma<64, false>(const Launch&, const MmaCall&, std::int32_t, MmaStep, bool);
template int mma_bytes<64, false>(bool, bool);

}  // namespace fovea::scan::cuda

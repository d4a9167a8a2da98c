#include "scan/cuda/gated_run.cuh"

namespace fovea::scan::cuda {

template void run_gated<64>(const Launch&, const MmaCall&, std::int32_t, MmaStep);
template int gated_bytes<64>(bool);

}  // namespace fovea::scan::cuda

#include "scan/cuda/portable.cuh"

namespace fovea::scan::cuda {

template <>
void portable_forward<float>(const Launch& launch, const Call& call, const Schedule& schedule, const Forward& io) {
  Portable<float>(launch, call, schedule).forward(io);
}
template <>
void portable_backward<float>(const Launch& launch, const Call& call, const Schedule& schedule, const Backward& io) {
  Portable<float>(launch, call, schedule).backward(io);
}

}  // namespace fovea::scan::cuda

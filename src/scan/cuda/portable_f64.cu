#include "scan/cuda/portable.cuh"

namespace fovea::scan::cuda {

template <>
void portable_forward<double>(const Launch& launch, const Call& call, const Schedule& schedule, const Forward& io) {
  Portable<double>(launch, call, schedule).forward(io);
}
template <>
void portable_backward<double>(const Launch& launch, const Call& call, const Schedule& schedule, const Backward& io) {
  Portable<double>(launch, call, schedule).backward(io);
}

}  // namespace fovea::scan::cuda

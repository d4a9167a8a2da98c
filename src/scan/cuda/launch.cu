#include "core/cuda/card_memory.h"
#include "scan/cuda/launch.h"

namespace fovea::scan {

template <>
void forward<Device::cuda>(const Context& context, const Problem& problem, const Forward& io) {
  cuda::forward(device::launch_of(context), problem, io);
}

template <>
void backward<Device::cuda>(const Context& context, const Problem& problem, const Backward& io) {
  cuda::backward(device::launch_of(context), problem, io);
}

}  // namespace fovea::scan

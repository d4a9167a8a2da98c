#include "tensor/convert_kernels.h"

namespace fovea {

template <>
void kernels::convert<Device::cpu>(const Context&, const ConvertTensors& io) {
  for (std::size_t i = 0; i < io.from.size(); ++i) io.to[i].copy_from(io.from[i]);
}

}  // namespace fovea

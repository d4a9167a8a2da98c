#include "tensor/init_kernels.h"

namespace fovea {

// Drawn by the host, so that a model starts with the same bits on every device: the logarithms and cosines of a card
// differ in the last one. It happens once.
template <>
void kernels::draw<Device::cuda>(const Context& context, const DrawnWeights& io) {
  const Context host({.threads = context.threads(), .seed = context.seed()});
  const Tensor drawn = Tensor::empty(host, io.to.shape(), io.to.dtype());
  kernels::draw<Device::cpu>(host, {io.init, io.stream, drawn});
  io.to.copy_from(drawn);
}

}  // namespace fovea

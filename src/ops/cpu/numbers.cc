#include "ops/cpu/scalar.h"
#include "ops/numbers_kernels.h"

namespace fovea {

template <>
void kernels::collect_numbers<Device::cpu>(const Context&, const CollectNumbers& io) {
  double* out = io.out.data<double>();
  for (const Tensor& scalar : io.scalars) *out++ = scalar.defined() ? cpu::scalar(scalar) : 0.0;
}

}  // namespace fovea

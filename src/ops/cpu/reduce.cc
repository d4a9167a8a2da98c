#include "ops/reduce_kernels.h"

#include "ops/column_sum_kernels.h"
#include "ops/cpu/scalar.h"

namespace fovea {

template <>
void kernels::total<Device::cpu>(const Context& context, const Total& io) {
  const Tensor sum = column_sums<Device::cpu>(context, {io.x.reshape({io.x.numel(), 1}), {}});
  io.y.fill(cpu::scalar(sum) * io.factor);
}

template <>
void kernels::total_backward<Device::cpu>(const Context&, const TotalVjp& io) {
  io.dx.fill(cpu::scalar(io.g) * io.factor);
}

}  // namespace fovea

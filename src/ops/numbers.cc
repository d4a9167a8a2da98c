#include "ops/numbers.h"

#include "core/visit_device.h"
#include "ops/numbers_kernels.h"

namespace fovea {

Tensor collect_numbers(const Context& context, std::vector<Tensor> scalars) {
  const Shape shape{std::ssize(scalars)};
  const kernels::CollectNumbers io{std::move(scalars), Tensor::empty(context, shape, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::collect_numbers<D>(context, io); });
  return io.out;
}

std::vector<double> read_numbers(const Context& context, std::vector<Tensor> scalars) {
  return collect_numbers(context, std::move(scalars)).to_vector<double>();
}

}  // namespace fovea

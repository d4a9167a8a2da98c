#include "tensor/finite.h"

#include "core/visit_device.h"
#include "tensor/finite_kernels.h"
#include "tensor/transient.h"

namespace fovea {

bool all_finite(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return true;
  const kernels::FiniteCheck io{tensor, transient(tensor.memory(), {}, DType::i64)};
  visit_device(*tensor.memory(), [&]<Device D>() { kernels::all_finite<D>(io); });
  return io.answer.to_vector<std::int64_t>().front() == 1;
}

Tensor finite_answer(const Context& context, const Tensor& tensor) {
  const kernels::FiniteCheck io{tensor, Tensor::empty(context, {}, DType::i64)};
  visit_device(context, io, [&]<Device D>() { kernels::all_finite<D>(io); });
  return io.answer;
}

}  // namespace fovea

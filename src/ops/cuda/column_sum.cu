#include "core/wide.h"
#include "ops/column_sum_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void run(const Context& context, const kernels::ColumnSum& io, const Tensor& sums) {
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y), to = elements<R>(sums);
  const std::int64_t width = io.x.dim(1);
  column_sums(
      context, {io.x.dim(0), width},
      [=] __device__(std::int64_t r, std::int64_t c) -> R {
        return y.defined() ? x[r * width + c] * y[r * width + c] : x[r * width + c];
      },
      [=] __device__(std::int64_t c, R sum) { to.put(c, sum); });
}

}  // namespace

template <>
Tensor kernels::column_sums<Device::cuda>(const Context& context, const ColumnSum& io) {
  const Tensor sums = Tensor::empty(context, {io.x.dim(1)}, wide_type(io.x.dtype()));
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io, sums); });
  return sums;
}

}  // namespace fovea

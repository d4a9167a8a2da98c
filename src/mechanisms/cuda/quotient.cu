#include "core/wide.h"
#include "mechanisms/quotient_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void divide(const Context& context, const kernels::DivideByLast& io) {
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const std::int64_t d = io.y.dim(-1);
  const auto add = static_cast<R>(io.add);
  each(context, io.y.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t from = i / d * (d + 1);
    const R sum = x[from + d] + add;
    y.put(i, sum == 0 ? R(0) : x[from + i % d] / sum);
  });
}

template <class R>
void pull(const Context& context, const kernels::DivideByLastPull& io) {
  const Elements<R> x = elements<R>(io.x), g = elements<R>(io.g), dx = elements<R>(io.dx);
  const std::int64_t d = io.g.dim(-1);
  const auto add = static_cast<R>(io.add);
  rows(context, io.x.numel() / (d + 1), d, [=] __device__(const auto& group) {
    const std::int64_t at = group.row * (d + 1), pulled = group.row * d;
    const R sum = x[at + d] + add, inverse = sum == 0 ? R(0) : 1 / sum;
    R dot(0);
    for (std::int64_t c = group.lane; c < d; c += group.lanes) {
      dot += g[pulled + c] * x[at + c];
      dx.put(at + c, g[pulled + c] * inverse);
    }
    dot = group.sum(dot);
    if (group.lane == 0) dx.put(at + d, -dot * inverse * inverse);
  });
}

}  // namespace

template <>
void kernels::divide_by_last<Device::cuda>(const Context& context, const DivideByLast& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { divide<R>(context, io); });
}

template <>
void kernels::divide_by_last_backward<Device::cuda>(const Context& context, const DivideByLastPull& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea

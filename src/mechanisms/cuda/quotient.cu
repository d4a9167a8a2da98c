#include "mechanisms/quotient_kernels.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void divide(const Context& context, const kernels::DivideByLast& io) {
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const std::int64_t d = io.y.dim(-1);
  const R add = static_cast<R>(io.add);
  each(context, io.y.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t row = i / d, first = row * (d + 1);
    const R sum = x[first + d] + add;
    y.put(i, sum == 0 ? R(0) : x[first + i - row * d] / sum);
  });
}

template <class R>
void vjp(const Context& context, const kernels::DivideByLastVjp& io) {
  const Elements<R> x = elements<R>(io.x), upstream = elements<R>(io.g), dx = elements<R>(io.dx);
  const std::int64_t d = io.g.dim(-1);
  const R add = static_cast<R>(io.add);
  rows(context, io.x.numel() / (d + 1), d, [=] __device__(const auto& g) {
    const std::int64_t first = g.row * (d + 1);
    const R sum = x[first + d] + add, inverse = sum == 0 ? R(0) : 1 / sum;
    R dot = 0;
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R own = upstream[g.row * d + c];
      dot += own * x[first + c];
      dx.put(first + c, own * inverse);
    }
    dot = g.sum(dot);
    if (g.lane == 0) dx.put(first + d, -dot * inverse * inverse);
  });
}

}  // namespace

template <>
void kernels::divide_by_last<Device::cuda>(const Context& context, const DivideByLast& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { divide<R>(context, io); });
}

template <>
void kernels::divide_by_last_backward<Device::cuda>(const Context& context, const DivideByLastVjp& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

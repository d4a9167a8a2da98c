#include "core/wide.h"
#include "mechanisms/bias_kernels.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void look(const Context& context, const kernels::AreNumbers& io) {
  const Elements<R> x = elements<R>(io.x);
  std::uint8_t* const flag = pointer<std::uint8_t>(io.flag);
  const bool or_minus_infinity = io.or_minus_infinity;
  each(context, 1, [=] __device__(std::int64_t) { *flag = 1; });
  each(context, io.x.numel(), [=] __device__(std::int64_t i) {
    const R value = x[i];
    const bool passes = value < math::kInfinity<R> && (or_minus_infinity || value > -math::kInfinity<R>);
    if (!passes) *flag = 0;  // whoever finds it, says the same
  });
}

}  // namespace

template <>
void kernels::are_numbers<Device::cuda>(const Context& context, const AreNumbers& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { look<R>(context, io); });
}

}  // namespace fovea

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
  const bool or_minus_infinity = io.or_minus_infinity;
  std::uint8_t* const flag = io.flag.data<std::uint8_t>();
  total(
      context, io.x.numel(),
      [=] __device__(std::int64_t i) -> std::int64_t {
        return x[i] < math::kInfinity<R> && (or_minus_infinity || x[i] > -math::kInfinity<R>) ? 0 : 1;
      },
      [=] __device__(std::int64_t strange) { *flag = strange == 0 ? 1 : 0; });
}

}  // namespace

template <>
void kernels::are_numbers<Device::cuda>(const Context& context, const AreNumbers& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { look<R>(context, io); });
}

}  // namespace fovea

#include "ops/distance_kernels.h"

#include "core/wide.h"
#include "ops/distance_policy.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class P, class R>
void run(const Context& context, const kernels::DistanceTensors& io) {
  const Elements<R> x = elements<R>(io.x), target = elements<R>(io.target);
  const Elements<double> loss = elements<double>(io.loss);
  const auto count = static_cast<double>(io.x.numel());
  device::total(
      context, io.x.numel(),
      [=] __device__(std::int64_t i) -> double { return static_cast<double>(P::apply(x[i] - target[i])); },
      [=] __device__(double sum) { loss.put(0, sum / count); });
}

template <class P, class R>
struct VjpDistance {
  double count;
  __device__ R operator()(R x, R target, R g) const {
    return static_cast<R>(static_cast<double>(g) / count) * P::slope(x - target);
  }
};

// f<P, R>() for a kind of distance and the wide type of a tensor.
template <class F>
void visit_both(kernels::Distance kind, DType dtype, const F& f) {
  visit_wide(dtype, [&]<class R>() {
    if (kind == kernels::Distance::squared)
      f.template operator()<policy::SquaredDistance, R>();
    else
      f.template operator()<policy::AbsoluteDistance, R>();
  });
}

}  // namespace

template <>
void kernels::distance<Device::cuda>(const Context& context, const DistanceTensors& io) {
  visit_both(io.kind, io.x.dtype(), [&]<class P, class R>() { run<P, R>(context, io); });
}

template <>
void kernels::distance_backward<Device::cuda>(const Context& context, const DistanceVjp& io) {
  visit_both(io.kind, io.x.dtype(), [&]<class P, class R>() {
    map<R>(context, VjpDistance<P, R>{static_cast<double>(io.x.numel())}, io.dx, io.x, io.target, io.g);
  });
}

}  // namespace fovea

#include "core/wide.h"
#include "ops/reduce_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void run(const Context& context, const kernels::Total& io) {
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const double factor = io.factor;
  total(
      context, io.x.numel(), [=] __device__(std::int64_t i) -> R { return x[i]; },
      [=] __device__(R sum) { y.put(0, static_cast<R>(static_cast<double>(sum) * factor)); });
}

template <class R>
struct Repeat {
  double factor;
  __device__ R operator()(R g) const { return static_cast<R>(static_cast<double>(g) * factor); }
};

}  // namespace

template <>
void kernels::total<Device::cuda>(const Context& context, const Total& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::total_backward<Device::cuda>(const Context& context, const TotalVjp& io) {
  visit_wide(io.dx.dtype(), [&]<class R>() { map<R>(context, Repeat<R>{io.factor}, io.dx, io.g); });
}

}  // namespace fovea

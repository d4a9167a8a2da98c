#include "ops/reciprocal_kernels.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct OneOver {
  __device__ R operator()(R x) const { return 1 / x; }
};

template <class R>
struct OneOverVjp {
  __device__ R operator()(R g, R y) const { return -g * y * y; }
};

}  // namespace

template <>
void kernels::reciprocal<Device::cuda>(const Context& context, const Reciprocal& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { map<R>(context, OneOver<R>(), io.y, io.x); });
}

template <>
void kernels::reciprocal_backward<Device::cuda>(const Context& context, const ReciprocalVjp& io) {
  visit_wide(io.y.dtype(), [&]<class R>() { map<R>(context, OneOverVjp<R>(), io.dx, io.g, io.y); });
}

}  // namespace fovea

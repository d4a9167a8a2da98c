#include "core/wide.h"
#include "ops/rotated_features_kernels.h"
#include "policy/log_sigmoid.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct Apply {
  R factor;
  __device__ R operator()(R x) const { return factor * policy::LogSigmoid::apply(x); }
};

template <class R>
struct Vjp {
  R factor;
  __device__ R operator()(R g, R x) const { return g * factor * policy::LogSigmoid::slope(x); }
};

}  // namespace

template <>
void kernels::log_sigmoid<Device::cuda>(const Context& context, const LogSigmoid& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    const R factor = static_cast<R>(io.factor);
    if (io.g.defined())
      map<R>(context, Vjp<R>{factor}, io.out, io.g, io.x);
    else
      map<R>(context, Apply<R>{factor}, io.out, io.x);
  });
}

}  // namespace fovea

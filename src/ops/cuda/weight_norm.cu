#include "ops/weight_norm_kernels.h"

#include "core/wide.h"
#include "ops/column_sum_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct Stretch {
  __device__ R operator()(R v, R s, R norm) const { return norm > 0 ? v * (s / norm) : R(0); }
};

template <class R>
struct StretchVjp {
  __device__ R operator()(R g, R v, R s, R norm, R along) const {
    const R inverse = norm > 0 ? 1 / norm : R(0), factor = s * inverse;
    return factor * g - factor * along * inverse * v;
  }
};

template <class R>
struct Root {
  __device__ R operator()(R x) const { return sqrt(x); }
};

template <class R>
struct OverNorm {
  __device__ R operator()(R x, R norm) const { return norm > 0 ? x / norm : R(0); }
};

}  // namespace

template <>
void kernels::weight_norm<Device::cuda>(const Context& context, const WeightNorm& io) {
  const Tensor squares = column_sums<Device::cuda>(context, {io.v, io.v});
  visit_wide(squares.dtype(), [&]<class R>() {
    map<R>(context, Root<R>(), io.norms, squares);
    map<R>(context, Stretch<R>(), io.w, io.v, io.s, io.norms);
  });
}

template <>
void kernels::weight_norm_backward<Device::cuda>(const Context& context, const WeightNormVjp& io) {
  const Tensor dots = column_sums<Device::cuda>(context, {io.g, io.v});
  visit_wide(dots.dtype(), [&]<class R>() {
    map<R>(context, OverNorm<R>(), io.ds, dots, io.norms);
    if (io.dv.defined()) map<R>(context, StretchVjp<R>(), io.dv, io.g, io.v, io.s, io.norms, io.ds);
  });
}

}  // namespace fovea

#include "ops/rotated_features_kernels.h"

#include "core/wide.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

struct Rotate {
  template <class R>
  __device__ Values<R, 2> operator()(R x, R sine, R cosine) const {
    const R kept = x < 0 ? R(0) : x;
    return {{kept * sine, kept * cosine}};
  }
};

struct RotateBack {
  template <class R>
  __device__ R operator()(R x, R first, R second, R sine, R cosine) const {
    return x > 0 ? first * sine + second * cosine : R(0);
  }
};

}  // namespace

template <>
void kernels::rotate_features<Device::cuda>(const Context& context, const RotatedFeatures& io) {
  const std::int64_t d = io.x.dim(3);
  const Tensor first = io.y.slice(3, 0, d), second = io.y.slice(3, d, 2 * d);
  const Tensor rotations = io.rotations.reshape({io.x.dim(0), io.x.dim(1), 1, 2});
  const Tensor sine = rotations.slice(3, 0, 1), cosine = rotations.slice(3, 1, 2);
  visit_wide(io.x.dtype(), [&]<class R>() {
    if (io.dx.defined())
      map<R>(context, RotateBack(), io.dx, io.x, first, second, sine, cosine);
    else
      map<R>(context, Rotate(), std::array{first, second}, io.x, sine, cosine);
  });
}

}  // namespace fovea

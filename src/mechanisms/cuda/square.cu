#include "core/wide.h"
#include "mechanisms/kernel/square_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Where the product of x_i and x_j, i <= j < r, stands.
__device__ std::int64_t place_of(std::int64_t i, std::int64_t j, std::int64_t r) {
  return i * r - i * (i - 1) / 2 + j - i;
}

template <class R>
__device__ R root2() {
  return static_cast<R>(1.41421356237309504880);
}

template <class R>
void square(const Context& context, const kernels::Square& io) {
  const R* const x = pointer<R>(io.x);
  R* const y = pointer<R>(io.y);
  const std::int64_t r = io.x.dim(-1), width = io.y.dim(-1);
  rows(context, io.x.numel() / r, r, [=] __device__(const auto& g) {
    const R* own = x + g.row * r;
    for (std::int64_t i = 0; i < r; ++i)
      for (std::int64_t j = i + g.lane; j < r; j += g.lanes)
        y[g.row * width + place_of(i, j, r)] = i == j ? own[i] * own[i] : root2<R>() * own[i] * own[j];
  });
}

template <class R>
void vjp(const Context& context, const kernels::SquareVjp& io) {
  const R *const x = pointer<R>(io.x), *const upstream = pointer<R>(io.g);
  R* const dx = pointer<R>(io.dx);
  const std::int64_t r = io.x.dim(-1), width = io.g.dim(-1);
  rows(context, io.x.numel() / r, r, [=] __device__(const auto& g) {
    const R *own = x + g.row * r, *from = upstream + g.row * width;
    for (std::int64_t i = g.lane; i < r; i += g.lanes) {
      R sum = root2<R>() * from[place_of(i, i, r)] * own[i];
      for (std::int64_t j = 0; j < r; ++j)
        if (j != i) sum += from[j < i ? place_of(j, i, r) : place_of(i, j, r)] * own[j];
      dx[g.row * r + i] = root2<R>() * sum;
    }
  });
}

}  // namespace

template <>
void kernels::square_features<Device::cuda>(const Context& context, const Square& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { square<R>(context, io); });
}

template <>
void kernels::square_features_backward<Device::cuda>(const Context& context, const SquareVjp& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

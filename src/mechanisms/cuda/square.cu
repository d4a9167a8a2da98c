#include <numbers>

#include "core/wide.h"
#include "mechanisms/kernel/square_kernels.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Products i <= j of r numbers, row after row of the upper triangle.
struct Triangle {
  std::int64_t r;

  __device__ std::int64_t begin(std::int64_t i) const { return i * r - i * (i - 1) / 2; }
  __device__ std::int64_t place(std::int64_t i, std::int64_t j) const { return begin(i) + j - i; }
  __device__ std::int64_t row(std::int64_t at) const {
    const auto side = static_cast<double>(2 * r + 1);
    auto i = static_cast<std::int64_t>((side - sqrt(side * side - 8.0 * static_cast<double>(at))) / 2.0);
    while (begin(i) > at) --i;  // the root may be off by one
    while (i + 1 < r && begin(i + 1) <= at) ++i;
    return i;
  }
};

template <class R>
void write(const Context& context, const kernels::Square& io) {
  const Triangle triangle{io.x.dim(-1)};
  const std::int64_t width = io.y.dim(-1);
  const R* const x = io.x.data<R>();
  R* const y = io.y.data<R>();
  each(context, io.y.numel(), [=] __device__(std::int64_t k) {
    const std::int64_t at = k % width, i = triangle.row(at), j = i + at - triangle.begin(i);
    const R* const row = x + k / width * triangle.r;
    y[k] = i == j ? row[i] * row[i] : static_cast<R>(std::numbers::sqrt2) * row[i] * row[j];
  });
}

template <class R>
void pull(const Context& context, const kernels::SquarePull& io) {
  const Triangle triangle{io.x.dim(-1)};
  const std::int64_t width = io.g.dim(-1);
  const R *const x = io.x.data<R>(), *const g = io.g.data<R>();
  R* const dx = io.dx.data<R>();
  each(context, io.x.numel(), [=] __device__(std::int64_t k) {
    const std::int64_t i = k % triangle.r;
    const R *const row = x + k / triangle.r * triangle.r, *const pulled = g + k / triangle.r * width;
    R sum(0);
    for (std::int64_t j = 0; j < triangle.r; ++j)
      if (j != i) sum += pulled[triangle.place(j < i ? j : i, j < i ? i : j)] * row[j];
    dx[k] = 2 * pulled[triangle.place(i, i)] * row[i] + static_cast<R>(std::numbers::sqrt2) * sum;
  });
}

}  // namespace

template <>
void kernels::square_features<Device::cuda>(const Context& context, const Square& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::square_features_backward<Device::cuda>(const Context& context, const SquarePull& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea

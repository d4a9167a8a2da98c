#include "core/wide.h"
#include "mechanisms/cuda/head_rows.cuh"
#include "mechanisms/gaussian_kernels.h"
#include "ops/cuda/sequences.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Where row i of (b n heads) begins.
__device__ inline std::int64_t place(const HeadRows& rows, std::int64_t i, std::int64_t n, std::int64_t heads) {
  return rows.at(i / heads / n, i / heads % n, i % heads);
}

template <class R>
void write(const Context& context, const kernels::Gaussian& io) {
  const kernels::GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), d = columns.d, square = columns.square(),
                     one = columns.one();
  const int parts = columns.parts;
  const RowOwners owners(context, *io.rows, n);
  const RowOwners::View owner = owners.view();
  const Elements<R> x = elements<R>(io.x), y = elements<R>(io.y);
  const HeadRows from(io.x), to(io.y);
  rows(context, io.x.dim(0) * n * heads, d, [=] __device__(const auto& g) {
    if (owner(g.row / heads) < 0) return;
    const std::int64_t in = place(from, g.row, n, heads), out = place(to, g.row, n, heads);
    R half(0);
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R value = x[in + c];
      half += R(0.5) * value * value;
      y.put(out + c, value);
    }
    half = g.sum(half);
    if (g.lane != 0) return;
    y.put(out + square, -half);
    if (parts == 2) y.put(out + square + 1, -half - y[out + square]);  // what rounding lost
    for (int i = 0; i < parts; ++i) y.put(out + one + i, R(1));
  });
}

template <class R>
void pull(const Context& context, const kernels::GaussianPull& io) {
  const kernels::GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), d = columns.d, square = columns.square();
  const RowOwners owners(context, *io.rows, n);
  const RowOwners::View owner = owners.view();
  const Elements<R> x = elements<R>(io.x), g = elements<R>(io.g), dx = elements<R>(io.dx);
  const HeadRows from(io.x), of_g(io.g), to(io.dx);
  each(context, io.x.dim(0) * n * heads * d, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / d, c = i % d;
    if (owner(row / heads) < 0) return;
    const std::int64_t pulled = place(of_g, row, n, heads);
    dx.put(place(to, row, n, heads) + c, g[pulled + c] - g[pulled + square] * x[place(from, row, n, heads) + c]);
  });
}

}  // namespace

template <>
void kernels::gaussian_features<Device::cuda>(const Context& context, const Gaussian& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::gaussian_features_backward<Device::cuda>(const Context& context, const GaussianPull& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea

#include "core/wide.h"
#include "mechanisms/gaussian_kernels.h"
#include "ops/cuda/listed_rows.cuh"
#include "ops/cuda/packs.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void append(const Context& context, const kernels::Gaussian& io) {
  const kernels::GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  const ListedRows listed(context, *io.rows, io.x.shape());
  const ListedRows::View view = listed.view();
  const HeadRows<R> x(io.x), y(io.y);
  const std::int64_t heads = io.x.dim(2), d = columns.d, square = columns.square(), one = columns.one();
  const bool has_square = columns.has_square();
  const int parts = columns.parts;
  rows(context, listed.rows() * heads, d, [=] __device__(const auto& g) {
    const std::int64_t row = view.row(g.row / heads), head = g.row % heads;
    const std::int64_t from = x.at(row, head), to = y.at(row, head);
    R half = 0;
    for (std::int64_t c = g.lane; c < d; c += g.lanes) {
      const R value = x.of[from + c];
      half += R(0.5) * value * value;
      y.of.put(to + c, value);
    }
    half = has_square ? g.sum(half) : R(0);
    if (g.lane > 0) return;
    y.of.put(to + square, -half);
    if (parts == 2) y.of.put(to + square + 1, -half - y.of[to + square]);
    for (int i = 0; i < parts; ++i) y.of.put(to + one + i, R(1));
  });
}

template <class R>
void vjp(const Context& context, const kernels::GaussianVjp& io) {
  const kernels::GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  const ListedRows listed(context, *io.rows, io.x.shape());
  const ListedRows::View view = listed.view();
  const HeadRows<R> x(io.x), upstream(io.g), dx(io.dx);
  const std::int64_t heads = io.x.dim(2), d = columns.d, square = columns.square();
  const bool has_square = columns.has_square();
  rows(context, listed.rows() * heads, d, [=] __device__(const auto& g) {
    const std::int64_t row = view.row(g.row / heads), head = g.row % heads;
    const std::int64_t from = x.at(row, head), in = upstream.at(row, head), to = dx.at(row, head);
    const R of_square = has_square ? upstream.of[in + square] : R(0);
    for (std::int64_t c = g.lane; c < d; c += g.lanes)
      dx.of.put(to + c, upstream.of[in + c] - of_square * x.of[from + c]);
  });
}

}  // namespace

template <>
void kernels::gaussian_features<Device::cuda>(const Context& context, const Gaussian& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { append<R>(context, io); });
}

template <>
void kernels::gaussian_features_backward<Device::cuda>(const Context& context, const GaussianVjp& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

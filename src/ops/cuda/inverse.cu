#include "ops/inverse_kernels.h"

#include "core/wide.h"
#include "ops/cuda/largest.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
struct ShiftDiagonal {
  R alpha, beta;
  std::int64_t p;
  __device__ R operator()(std::int64_t i, R x) const { return beta * x + (i / p % p == i % p ? alpha : R(0)); }
};

template <class R>
struct AddTimes {
  R factor;
  __device__ R operator()(R y, R x) const { return y + factor * x; }
};

struct TimesBoth {
  template <class R>
  __device__ R operator()(R x, R of_row, R of_column) const {
    return of_row * x * of_column;
  }
};

struct VjpRoot {
  template <class R>
  __device__ R operator()(R dx, R r, R dr) const {
    return dx - R(0.5) * r * r * r * dr;
  }
};

// Numbers (count, p) of rows or columns, beside matrices (count, p, p).
Tensor of_rows(const Tensor& r) { return r.reshape({r.dim(0), r.dim(1), 1}); }
Tensor of_columns(const Tensor& r) { return r.reshape({r.dim(0), 1, r.dim(1)}); }

// Which column of which matrix has the largest sum; sums that are not above 0, and NaN, are none.
struct LargestColumn {
  std::int64_t matrix, column;
  double sum;
};
__device__ double above_zero(double sum) { return sum > 0.0 ? sum : 0.0; }

// That of each matrix, or of all for each: (count) LargestColumn.
template <class R>
Tensor largest_columns(const Context& context, const Tensor& a, bool of_all) {
  const std::int64_t count = a.dim(0), p = a.dim(-1);
  const auto bytes = [&](std::int64_t items) {
    return Tensor::empty(context, {items * static_cast<std::int64_t>(sizeof(LargestColumn))}, DType::u8,
                         Lifetime::scratch);
  };
  const Tensor sums = Tensor::empty(context, {count, p}, DType::f64, Lifetime::scratch), out = bytes(count);
  const R* const from = pointer<R>(a);
  double* const sum = pointer<double>(sums);
  auto* const found = static_cast<LargestColumn*>(out.raw());
  each(context, count * p, [=] __device__(std::int64_t i) {
    double total = 0;
    for (std::int64_t row = 0; row < p; ++row) total += static_cast<double>(from[(i / p * p + row) * p + i % p]);
    sum[i] = total;
  });
  rows(context, count, p, [=] __device__(const auto& g) {
    const auto own = largest_of<double>(g, p, [&](std::int64_t c) { return above_zero(sum[g.row * p + c]); });
    if (g.lane == 0) found[g.row] = {g.row, own.place, own.value};
  });
  if (!of_all) return out;
  const Tensor same = bytes(count);
  auto* const to = static_cast<LargestColumn*>(same.raw());
  rows(context, 1, count, [=] __device__(const auto& g) {
    const std::int64_t top = largest_of<double>(g, count, [&](std::int64_t m) { return found[m].sum; }).place;
    for (std::int64_t m = g.lane; m < count; m += g.lanes) to[m] = found[top];
  });
  return same;
}

template <class R>
void start(const Context& context, const kernels::InverseStart& io) {
  const Tensor largest = largest_columns<R>(context, io.a, io.one_start);
  const auto* const found = static_cast<const LargestColumn*>(largest.raw());
  R* const z = pointer<R>(io.z);
  const std::int64_t squares = io.z.dim(-1) * io.z.dim(-1);
  each(context, io.z.numel(), [=] __device__(std::int64_t i) { z[i] *= static_cast<R>(1.0 / found[i / squares].sum); });
}

template <class R>
void vjp_start(const Context& context, const kernels::InverseStartVjp& io) {
  const std::int64_t count = io.da.dim(0), p = io.da.dim(-1), squares = p * p;
  const bool one_start = io.one_start;
  const Tensor largest = largest_columns<R>(context, io.a, one_start);
  const Tensor inner = Tensor::empty(context, {count}, DType::f64, Lifetime::scratch);
  const auto* const found = static_cast<const LargestColumn*>(largest.raw());
  const R *const a = pointer<R>(io.a), *const g = pointer<R>(io.dz);
  R* const da = pointer<R>(io.da);
  double* const given = pointer<double>(inner);  // to the largest column of each matrix
  rows(context, count, squares, [=] __device__(const auto& group) {
    double sum = 0;
    for (std::int64_t i = group.lane; i < squares; i += group.lanes)
      sum += static_cast<double>(g[group.row * squares + i]) * static_cast<double>(a[group.row * squares + i]);
    sum = group.sum(sum);
    if (group.lane == 0) given[group.row] = sum / (found[group.row].sum * found[group.row].sum);
  });
  each(context, io.da.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t m = i / squares;
    const LargestColumn top = found[m];
    R sum = da[i] + g[i] / static_cast<R>(top.sum);
    if (top.matrix == m && top.column == i % p)
      for (std::int64_t from = one_start ? 0 : m; from < (one_start ? count : m + 1); ++from)
        sum -= static_cast<R>(given[from]);
    da[i] = sum;
  });
}

template <class R>
void vjp_balance(const Context& context, const kernels::BalanceVjp& io) {
  const std::int64_t p = io.x.dim(-1);
  const R *const g = pointer<R>(io.g), *const x = pointer<R>(io.x), *const r = pointer<R>(io.r);
  R* const dr = pointer<R>(io.dr);
  rows(context, io.r.numel(), p, [=] __device__(const auto& group) {
    const std::int64_t first = group.row / p * p, row = group.row % p;  // first: row of the matrix
    R sum = 0;
    for (std::int64_t j = group.lane; j < p; j += group.lanes) {
      const std::int64_t along = (first + row) * p + j, across = (first + j) * p + row;
      sum += (g[along] * x[along] + g[across] * x[across]) * r[first + j];
    }
    sum = group.sum(sum);
    if (group.lane == 0) dr[group.row] += sum;
  });
}

template <class R>
void roots(const Context& context, const kernels::RootSums& io) {
  const std::int64_t p = io.x.dim(-1);
  const R* const x = pointer<R>(io.x);
  R* const r = pointer<R>(io.r);
  rows(context, io.r.numel(), p, [=] __device__(const auto& g) {
    R sum = 0;
    for (std::int64_t c = g.lane; c < p; c += g.lanes) sum += x[g.row * p + c];
    sum = g.sum(sum);
    if (g.lane == 0) r[g.row] = R(1) / sqrt(sum);
  });
}

}  // namespace

template <>
void kernels::shifted_identity<Device::cuda>(const Context& context, const ShiftedIdentity& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    const ShiftDiagonal<R> shift{static_cast<R>(io.alpha), static_cast<R>(io.beta), io.x.dim(-1)};
    map<R>(context, shift, io.y, io.x);
  });
}

template <>
void kernels::add_scaled<Device::cuda>(const Context& context, const AddScaled& io) {
  visit_wide(io.x.dtype(),
             [&]<class R>() { map<R>(context, AddTimes<R>{static_cast<R>(io.factor)}, io.y, io.y, io.x); });
}

template <>
void kernels::inverse_start<Device::cuda>(const Context& context, const InverseStart& io) {
  visit_wide(io.a.dtype(), [&]<class R>() { start<R>(context, io); });
}

template <>
void kernels::inverse_start_backward<Device::cuda>(const Context& context, const InverseStartVjp& io) {
  visit_wide(io.da.dtype(), [&]<class R>() { vjp_start<R>(context, io); });
}

template <>
void kernels::balance<Device::cuda>(const Context& context, const Balance& io) {
  visit_wide(io.x.dtype(),
             [&]<class R>() { map<R>(context, TimesBoth(), io.y, io.x, of_rows(io.r), of_columns(io.r)); });
}

template <>
void kernels::balance_backward<Device::cuda>(const Context& context, const BalanceVjp& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { vjp_balance<R>(context, io); });
}

template <>
void kernels::root_sums<Device::cuda>(const Context& context, const RootSums& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { roots<R>(context, io); });
}

template <>
void kernels::root_sums_backward<Device::cuda>(const Context& context, const RootSumsVjp& io) {
  visit_wide(io.dx.dtype(),
             [&]<class R>() { map<R>(context, VjpRoot(), io.dx, io.dx, of_rows(io.r), of_rows(io.dr)); });
}

}  // namespace fovea

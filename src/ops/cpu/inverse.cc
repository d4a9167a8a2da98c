#include "ops/inverse_kernels.h"

#include <cmath>
#include <vector>

#include "ops/work.h"

namespace fovea {
namespace {

// body(matrix, row, pointer offset of the row) for every row of (count, p, p).
template <class Body>
void each_row(const Context& context, const Tensor& x, Body&& body) {
  const std::int64_t p = x.dim(-1);
  for_rows(context, x.dim(0) * p, p, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) body(r / p, r % p, r * p);
  });
}

// Which column of which matrix has the largest sum.
struct Largest {
  std::int64_t matrix, column;
  double sum;
};
// That of each matrix, or of all for each.
std::vector<Largest> largest_columns(const Tensor& a, bool of_all) {
  const std::int64_t p = a.dim(-1);
  std::vector<Largest> out(static_cast<std::size_t>(a.dim(0)), {0, 0, 0.0});
  visit_wide(a.dtype(), [&]<class R>() {
    for (std::int64_t m = 0; m < a.dim(0); ++m) {
      out[static_cast<std::size_t>(m)].matrix = m;  // also where no column has a sum: NaN stays at home
      std::vector<double> sums(static_cast<std::size_t>(p), 0.0);
      for (std::int64_t i = 0; i < p * p; ++i) sums[static_cast<std::size_t>(i % p)] += a.data<R>()[m * p * p + i];
      for (std::int64_t c = 0; c < p; ++c)
        if (const double sum = sums[static_cast<std::size_t>(c)]; sum > out[static_cast<std::size_t>(m)].sum)
          out[static_cast<std::size_t>(m)] = {m, c, sum};
    }
  });
  const auto top = std::max_element(out.begin(), out.end(), [](auto& a, auto& b) { return a.sum < b.sum; });
  return of_all && !out.empty() ? std::vector<Largest>(out.size(), *top) : out;
}

}  // namespace

template <>
void kernels::shifted_identity<Device::cpu>(const Context& context, const ShiftedIdentity& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    each_row(context, io.x, [&](std::int64_t, std::int64_t row, std::int64_t at) {
      const R* from = io.x.data<R>() + at;
      R* to = io.y.data<R>() + at;
      for (std::int64_t c = 0; c < io.x.dim(-1); ++c) to[c] = static_cast<R>(io.beta) * from[c];
      to[row] += static_cast<R>(io.alpha);
    });
  });
}

template <>
void kernels::add_scaled<Device::cpu>(const Context& context, const AddScaled& io) {
  visit_wide(io.x.dtype(), [&]<class R>() {
    each_row(context, io.y, [&](std::int64_t, std::int64_t, std::int64_t at) {
      for (std::int64_t c = at; c < at + io.y.dim(-1); ++c)
        io.y.data<R>()[c] += static_cast<R>(io.factor) * io.x.data<R>()[c];
    });
  });
}

template <>
void kernels::inverse_start<Device::cpu>(const Context& context, const InverseStart& io) {
  const std::vector<Largest> largest = largest_columns(io.a, io.one_start);
  visit_wide(io.a.dtype(), [&]<class R>() {
    each_row(context, io.z, [&](std::int64_t matrix, std::int64_t, std::int64_t at) {
      const R factor = static_cast<R>(1.0 / largest[static_cast<std::size_t>(matrix)].sum);
      for (std::int64_t c = at; c < at + io.z.dim(-1); ++c) io.z.data<R>()[c] *= factor;
    });
  });
}

template <>
void kernels::inverse_start_backward<Device::cpu>(const Context&, const InverseStartVjp& io) {
  const std::int64_t p = io.da.dim(-1);
  const std::vector<Largest> largest = largest_columns(io.a, io.one_start);
  visit_wide(io.da.dtype(), [&]<class R>() {
    for (std::int64_t m = 0; m < io.da.dim(0); ++m) {
      const auto [source, column, sum] = largest[static_cast<std::size_t>(m)];
      const R *a = io.a.data<R>() + m * p * p, *g = io.dz.data<R>() + m * p * p;
      R *own = io.da.data<R>() + m * p * p, *top = io.da.data<R>() + source * p * p + column;
      double inner = 0.0;
      for (std::int64_t i = 0; i < p * p; ++i) inner += static_cast<double>(g[i]) * static_cast<double>(a[i]);
      for (std::int64_t i = 0; i < p * p; ++i) own[i] += g[i] / static_cast<R>(sum);
      for (std::int64_t r = 0; r < p; ++r) top[r * p] -= static_cast<R>(inner / (sum * sum));
    }
  });
}

template <>
void kernels::balance<Device::cpu>(const Context& context, const Balance& io) {
  const std::int64_t p = io.x.dim(-1);
  visit_wide(io.x.dtype(), [&]<class R>() {
    each_row(context, io.x, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      const R* scale = io.r.data<R>() + matrix * p;
      for (std::int64_t c = 0; c < p; ++c) io.y.data<R>()[at + c] = scale[row] * io.x.data<R>()[at + c] * scale[c];
    });
  });
}

template <>
void kernels::balance_backward<Device::cpu>(const Context& context, const BalanceVjp& io) {
  const std::int64_t p = io.x.dim(-1);
  visit_wide(io.x.dtype(), [&]<class R>() {
    parallel_for(context, io.x.dim(0), [&](std::int64_t m) {
      const R *gm = io.g.data<R>() + m * p * p, *xm = io.x.data<R>() + m * p * p, *rm = io.r.data<R>() + m * p;
      for (std::int64_t i = 0; i < p; ++i)
        for (std::int64_t j = 0; j < p; ++j) {
          const R share = gm[i * p + j] * xm[i * p + j];
          io.dr.data<R>()[m * p + i] += share * rm[j];
          io.dr.data<R>()[m * p + j] += share * rm[i];
        }
    });
  });
}

template <>
void kernels::root_sums<Device::cpu>(const Context& context, const RootSums& io) {
  const std::int64_t p = io.x.dim(-1);
  visit_wide(io.x.dtype(), [&]<class R>() {
    each_row(context, io.x, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      R sum = 0;
      for (std::int64_t c = at; c < at + p; ++c) sum += io.x.data<R>()[c];
      io.r.data<R>()[matrix * p + row] = R(1) / std::sqrt(sum);
    });
  });
}

template <>
void kernels::root_sums_backward<Device::cpu>(const Context& context, const RootSumsVjp& io) {
  visit_wide(io.dx.dtype(), [&]<class R>() {
    each_row(context, io.dx, [&](std::int64_t matrix, std::int64_t row, std::int64_t at) {
      const R scale = io.r.data<R>()[matrix * io.dx.dim(-1) + row];
      const R share = R(-0.5) * scale * scale * scale * io.dr.data<R>()[matrix * io.dx.dim(-1) + row];
      for (std::int64_t c = at; c < at + io.dx.dim(-1); ++c) io.dx.data<R>()[c] += share;
    });
  });
}

}  // namespace fovea

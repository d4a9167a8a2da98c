// Rows of the caller's arrays into scratch and back: dtype conversion, feature maps and their derivatives, and the
// gradient through a denominator or a norm. Compiled once per instruction set; the inner loops are vectorised by the
// compiler.

#if defined(FOVEA_SCAN_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_SCAN_ROWS_INL_H_
#undef FOVEA_SCAN_ROWS_INL_H_
#else
#define FOVEA_SCAN_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "policy/feature_map.h"
#include "scan/cpu/buffers.h"
#include "scan/cpu/rows.h"
#include "simd/matrix.h"
#include "simd/product.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::scan::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class R, class M, class T>
HWY_NOINLINE void load_as(const T* HWY_RESTRICT from, std::int64_t stride, std::size_t rows, std::size_t dim,
                          Matrix<R> to) {
  for (std::size_t i = 0; i < rows; ++i, from += stride) {
    R* HWY_RESTRICT row = to.row(i);
    for (std::size_t a = 0; a < dim; ++a) row[a] = M::template apply<R>(static_cast<R>(from[a]));
    for (std::size_t a = dim; a < to.ld; ++a) row[a] = 0;
  }
}

// to[i] = map(rows[i]), columns padded with zeros.
template <class R>
void load_exactly(const Rows<const void*>& from, Map map, std::size_t rows, Matrix<R> to) {
  visit_element<R>(from.dtype, [&]<class T>() {
    const T* data = static_cast<const T*>(from.data);
    switch (map) {
      case Map::identity: return load_as<R, policy::IdentityMap>(data, from.stride, rows, from.dim, to);
      case Map::elu_plus_one: return load_as<R, policy::EluPlusOneMap>(data, from.stride, rows, from.dim, to);
      case Map::elu: return load_as<R, policy::EluMap>(data, from.stride, rows, from.dim, to);
      case Map::relu: return load_as<R, policy::ReluMap>(data, from.stride, rows, from.dim, to);
    }
  });
}

// The same with the rows padded too, which keeps what lies beside the data out of products.
template <class R>
void load(const Rows<const void*>& from, Map map, std::size_t rows, Matrix<R> to) {
  load_exactly(from, map, rows, to);
  std::fill(to.row(rows), to.row(padded<R>(rows)), R{0});
}

// Values with the column of ones that carries the denominator.
template <class R>
void load_values(const Rows<const void*>& from, std::size_t width, std::size_t rows, Matrix<R> to) {
  load(from, Map::identity, rows, to);
  if (width == from.dim) return;
  for (std::size_t i = 0; i < rows; ++i) to.row(i)[from.dim] = 1;
}

// Writes past the caches where whole aligned vectors are written: nobody reads the result soon.
template <class R>
HWY_NOINLINE void stream_as(Matrix<const R> from, const R* factor, std::size_t rows, std::size_t dim, Matrix<R> to) {
  const hn::ScalableTag<R> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto f = hn::Set(d, factor == nullptr ? R{1} : factor[i]);
    for (std::size_t a = 0; a < dim; a += lanes)
      hn::Stream(hn::Mul(hn::LoadU(d, from.row(i) + a), f), d, to.row(i) + a);
  }
}

// `from` may be `to`.
template <class R, class T>
HWY_NOINLINE void store_as(Matrix<const R> from, const R* factor, std::size_t rows, const Rows<void*>& to) {
  T* out = static_cast<T*>(to.data);
  for (std::size_t i = 0; i < rows; ++i, out += to.stride) {
    const R* row = from.row(i);
    const R f = factor == nullptr ? R{1} : factor[i];
#pragma omp simd
    for (std::size_t a = 0; a < to.dim; ++a) out[a] = static_cast<T>(row[a] * f);
  }
}

template <class R>
bool can_stream(const Rows<void*>& to) {
  constexpr std::size_t kVector = hn::MaxLanes(hn::ScalableTag<R>());
  return reinterpret_cast<std::uintptr_t>(to.data) % (kVector * sizeof(R)) == 0 && to.dim % kVector == 0 &&
         static_cast<std::size_t>(to.stride) % kVector == 0 && to.stride > 0;
}

// rows[i] = factor[i] from[i]; no factor: 1.
template <class R>
void store(Matrix<const R> from, const R* factor, std::size_t rows, const Rows<void*>& to) {
  if (to.dtype == dtype_of<R> && can_stream<R>(to)) {
    const Matrix<R> out = {static_cast<R*>(to.data), static_cast<std::size_t>(to.stride)};
    return stream_as<R>(from, factor, rows, to.dim, out);
  }
  visit_element<R>(to.dtype, [&]<class T>() { store_as<R, T>(from, factor, rows, to); });
}

// What store() loses: rows[i] = x - (x as it was stored), x = factor[i] from[i].
template <class R>
HWY_NOINLINE void store_rest(Matrix<const R> from, const R* factor, std::size_t rows, const Rows<void*>& to) {
  visit_element<R>(to.dtype, [&]<class T>() {
    T* out = static_cast<T*>(to.data);
    for (std::size_t i = 0; i < rows; ++i, out += to.stride) {
      const R* row = from.row(i);
      const R f = factor == nullptr ? R{1} : factor[i];
#pragma omp simd
      for (std::size_t a = 0; a < to.dim; ++a) {
        const R x = row[a] * f;
        out[a] = static_cast<T>(x - static_cast<R>(static_cast<T>(x)));
      }
    }
  });
}

template <class R, class M>
HWY_NOINLINE void vjp_as(Matrix<R> gradient, Matrix<const R> features, std::size_t rows, std::size_t dim) {
  for (std::size_t i = 0; i < rows; ++i) {
    R* HWY_RESTRICT row = gradient.row(i);
    const R* HWY_RESTRICT feature = features.row(i);
    for (std::size_t a = 0; a < dim; ++a) row[a] *= M::template slope<R>(feature[a]);
  }
}

// Stores the gradient of the inputs of a map, given that of its features. `gradient` is used up.
template <class R>
void store_vjp(Matrix<R> gradient, Matrix<const R> features, Map map, std::size_t rows, const Rows<void*>& to) {
  switch (map) {
    case Map::identity: break;
    case Map::elu_plus_one: vjp_as<R, policy::EluPlusOneMap>(gradient, features, rows, to.dim); break;
    case Map::elu: vjp_as<R, policy::EluMap>(gradient, features, rows, to.dim); break;
    case Map::relu: vjp_as<R, policy::ReluMap>(gradient, features, rows, to.dim); break;
  }
  store<R>(gradient, nullptr, rows, to);
}

// rows[i] = 0, elements of R.
template <class R>
void clear(std::size_t rows, const Rows<void*>& to) {
  R* out = static_cast<R*>(to.data);
  for (std::size_t i = 0; i < rows; ++i, out += to.stride) std::fill_n(out, to.dim, R{0});
}

template <class R, class T>
HWY_NOINLINE R dot_as(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::size_t n) {
  R sum = 0;
  std::size_t first = 0;
  if constexpr (std::is_same_v<R, T>) {  // the compiler would add up the lanes one by one, through memory
    const hn::ScalableTag<R> d;
    auto lanes = hn::Zero(d);
    for (; first + hn::Lanes(d) <= n; first += hn::Lanes(d))
      lanes = hn::MulAdd(hn::LoadU(d, a + first), hn::LoadU(d, b + first), lanes);
    sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  }
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = first; i < n; ++i) sum += static_cast<R>(a[i]) * static_cast<R>(b[i]);
  return sum;
}

// rows[i] += x[i] y[i], by column or summed over all columns into one; elements of R. size: rows, columns.
template <class R>
HWY_NOINLINE void add_products(Matrix<const R> x, Matrix<const R> y, const Extent& size, const Rows<void*>& to) {
  R* out = static_cast<R*>(to.data);
  for (std::size_t i = 0; i < size.m; ++i, out += to.stride) {
    const R *a = x.row(i), *b = y.row(i);
    if (to.dim == 1) {
      out[0] += dot_as<R>(a, b, size.n);
    } else {
#pragma omp simd
      for (std::size_t j = 0; j < size.n; ++j) out[j] += a[j] * b[j];
    }
  }
}

// The same with a minus, and then the sums from the last row up to each one; they start from `sums` and end there.
template <class R>
HWY_NOINLINE void sum_decays(Matrix<const R> x, Matrix<const R> y, const Extent& size, const Rows<void*>& to,
                             double* sums) {
  for (std::size_t i = size.m; i-- > 0;) {
    R* out = static_cast<R*>(to.data) + static_cast<std::int64_t>(i) * to.stride;
    const R *a = x.row(i), *b = y.row(i);
    if (to.dim == 1) {
      sums[0] += out[0] - dot_as<R>(a, b, size.n);
      out[0] = static_cast<R>(sums[0]);
    } else {
#pragma omp simd
      for (std::size_t j = 0; j < size.n; ++j) {
        sums[j] += out[j] - a[j] * b[j];
        out[j] = static_cast<R>(sums[j]);
      }
    }
  }
}

// What the gradient of o turns into on its way to y = S^T f(q): with r = 1 / D or the norm's factor,
//   denominator: r d_o, and -r (d_o . o) in the extra column;  norm: r (d_o - o (d_o . o over all heads) / columns).
template <class R, class T>
HWY_NOINLINE void load_gradient_as(const GradientRows<R>& from, std::size_t rows, Matrix<R> to) {
  const std::size_t dim = from.d_o.dim;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const T* HWY_RESTRICT d_o = static_cast<const T*>(from.d_o.data) + at * from.d_o.stride;
    const T* HWY_RESTRICT o = static_cast<const T*>(from.o.data) + at * from.o.stride;
    const T* HWY_RESTRICT rest =
        from.rest.data == nullptr ? nullptr : static_cast<const T*>(from.rest.data) + at * from.rest.stride;
    R* HWY_RESTRICT row = to.row(i);
    const R statistic = from.statistic[at * from.statistic_stride];
    R factor = statistic, pull = 0;
    if (from.dots != nullptr) {
      pull = from.dots[i] * from.per_column;
    } else {
      factor = statistic == 0 ? R{0} : 1 / statistic;
      const bool clamped = from.clamp && statistic <= from.floor;
      const R dot = dot_as<R>(d_o, o, dim) + (rest == nullptr ? R{0} : dot_as<R>(d_o, rest, dim));
      row[dim] = clamped ? R{0} : -factor * dot;
    }
    for (std::size_t a = 0; a < dim; ++a) row[a] = (static_cast<R>(d_o[a]) - static_cast<R>(o[a]) * pull) * factor;
    if (rest == nullptr || pull == 0) continue;
    const R rest_pull = pull * factor;
    for (std::size_t a = 0; a < dim; ++a) row[a] -= static_cast<R>(rest[a]) * rest_pull;
  }
}

template <class R>
void load_gradient(const GradientRows<R>& from, std::size_t rows, Matrix<R> to) {
  if (from.statistic == nullptr) return load<R>(from.d_o, Map::identity, rows, to);
  visit_element<R>(from.d_o.dtype, [&]<class T>() { load_gradient_as<R, T>(from, rows, to); });
}

// d_o . o over all heads of a row.
template <class R>
R row_dot(const Problem& problem, const Backward& io, Place at) {
  R sum = 0;
  const auto d_v = static_cast<std::size_t>(problem.d_v);
  const DType dtype = problem.output_type();
  for (at.head = 0; at.head < problem.heads; ++at.head)
    visit_element<R>(dtype, [&]<class T>() {
      const auto row = [&](const In& array) { return static_cast<const T*>(rows_at(dtype, array, at, d_v).data); };
      sum += dot_as<R>(row(io.d_o), row(io.o), d_v);
      if (io.rest.data != nullptr) sum += dot_as<R>(row(io.d_o), row(io.rest), d_v);
    });
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::scan::cpu
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_SCAN_ROWS_INL_H_

#include "core/parallel.h"
#include "mechanisms/gaussian_kernels.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 256;  // rows

// body(item, row, head) for every row of a sequence.
template <class Body>
void each_row(const Context& context, const std::vector<Sequences::Rows>& rows, std::int64_t heads, Body&& body) {
  for (const Sequences::Rows& s : rows)
    parallel_ranges(context, s.count * heads, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(s.batch, s.begin + i / heads, i % heads);
    });
}

template <class T>
T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) {
  return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
}

template <class T>
void append(const T* x, const kernels::GaussianColumns& columns, T* y) {
  using R = Wide<T>;
  R half = 0;
  for (std::int64_t c = 0; c < columns.d; ++c) {
    const R value = static_cast<R>(x[c]);
    if (columns.has_square()) half += R(0.5) * value * value;
    y[c] = x[c];
  }
  const T high = static_cast<T>(-half);
  y[columns.square()] = high;
  if (columns.parts == 2) y[columns.square() + 1] = static_cast<T>(-half - static_cast<R>(high));
  for (int i = 0; i < columns.parts; ++i) y[columns.one() + i] = T(1.0f);
}

}  // namespace

template <>
void kernels::gaussian_features<Device::cpu>(const Context& context, const Gaussian& io) {
  const GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  visit_float(io.x.dtype(), [&]<class T>() {
    each_row(context, *io.rows, io.x.dim(2), [&](std::int64_t item, std::int64_t row, std::int64_t head) {
      append(at<T>(io.x, item, row, head), columns, at<T>(io.y, item, row, head));
    });
  });
}

template <>
void kernels::gaussian_features_backward<Device::cpu>(const Context& context, const GaussianVjp& io) {
  const GaussianColumns columns(io.x.dim(3), io.x.dtype(), io.side);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    each_row(context, *io.rows, io.x.dim(2), [&](std::int64_t item, std::int64_t row, std::int64_t head) {
      const T *from = at<T>(io.x, item, row, head), *in = at<T>(io.g, item, row, head);
      T* to = at<T>(io.dx, item, row, head);
      const R square = columns.has_square() ? static_cast<R>(in[columns.square()]) : R(0);
      for (std::int64_t c = 0; c < columns.d; ++c)
        to[c] = static_cast<T>(static_cast<R>(in[c]) - square * static_cast<R>(from[c]));
    });
  });
}

}  // namespace fovea

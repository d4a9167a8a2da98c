#include <algorithm>
#include <numbers>

#include "mechanisms/kernel/square_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

template <class R>
void square_row(const R* x, std::int64_t r, R* y) {
  for (std::int64_t i = 0; i < r; ++i) {
    *y++ = x[i] * x[i];
    const R factor = static_cast<R>(std::numbers::sqrt2) * x[i];
    for (std::int64_t j = i + 1; j < r; ++j) *y++ = factor * x[j];
  }
}

template <class R>
void square_row_backward(const R* x, const R* g, std::int64_t r, R* dx) {
  std::fill_n(dx, r, R(0));
  for (std::int64_t i = 0; i < r; ++i) {
    R sum = static_cast<R>(std::numbers::sqrt2) * *g++ * x[i];  // divided by sqrt(2) below, times 2
    const R factor = static_cast<R>(std::numbers::sqrt2) * x[i];
    for (std::int64_t j = i + 1; j < r; ++j, ++g) {
      sum += *g * x[j];
      dx[j] += factor * *g;
    }
    dx[i] += static_cast<R>(std::numbers::sqrt2) * sum;
  }
}

}  // namespace

template <>
void kernels::square_features<Device::cpu>(const Context& context, const Square& io) {
  const std::int64_t r = io.x.dim(-1), width = io.y.dim(-1);
  visit_wide(io.x.dtype(), [&]<class R>() {
    for_rows(context, io.x.numel() / r, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        square_row(io.x.data<R>() + row * r, r, io.y.data<R>() + row * width);
    });
  });
}

template <>
void kernels::square_features_backward<Device::cpu>(const Context& context, const SquareVjp& io) {
  const std::int64_t r = io.x.dim(-1), width = io.g.dim(-1);
  visit_wide(io.x.dtype(), [&]<class R>() {
    for_rows(context, io.x.numel() / r, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        square_row_backward(io.x.data<R>() + row * r, io.g.data<R>() + row * width, r, io.dx.data<R>() + row * r);
    });
  });
}

}  // namespace fovea

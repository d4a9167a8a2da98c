#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/softmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/row_reduce-inl.h"
#include "ops/softmax_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Two passes over the exponentials instead of one and a buffer: the second reads from L1, and half types lose nothing.
template <class T>
HWY_FLATTEN void softmax_row(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, std::int64_t width) {
  using R = Wide<T>;
  const R top = row_max(x, width), sum = row_exp_sum(x, top, width);
  const R inverse = sum == 0 ? R(0) : 1 / sum;
  for (std::int64_t i = 0; i < width; ++i) y[i] = T(math::exp(static_cast<R>(x[i]) - top) * inverse);
}

template <class T>
HWY_FLATTEN void log_softmax_row(const T* HWY_RESTRICT x, T* HWY_RESTRICT y, std::int64_t width) {
  using R = Wide<T>;
  const R top = row_max(x, width), sum = row_exp_sum(x, top, width);
  const R log_sum = sum == 0 ? R(0) : math::log(sum);
  for (std::int64_t i = 0; i < width; ++i) y[i] = T((static_cast<R>(x[i]) - top) - log_sum);
}

// dx = y (g - mean g), the mean in two steps: where one share is nearly 1, g - mean nearly cancels, and the second
// brings back what the first lost to its rounding and to that of the shares, whose sum is not exactly 1.
template <class T>
void vjp_row(const T* HWY_RESTRICT g, const T* HWY_RESTRICT y, T* HWY_RESTRICT dx, std::int64_t width) {
  using R = Wide<T>;
  const R mean = row_dot(g, y, width), rest = row_dot(g, y, width, mean);
  for (std::int64_t i = 0; i < width; ++i) dx[i] = T(static_cast<R>(y[i]) * ((static_cast<R>(g[i]) - mean) - rest));
}

template <class T>
HWY_FLATTEN void log_vjp_row(const T* HWY_RESTRICT g, const T* HWY_RESTRICT y, T* HWY_RESTRICT dx, std::int64_t width) {
  using R = Wide<T>;
  const R sum = row_sum(g, width);
  for (std::int64_t i = 0; i < width; ++i) dx[i] = T(static_cast<R>(g[i]) - math::exp(static_cast<R>(y[i])) * sum);
}

void softmax_rows(const kernels::Softmax& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = io.x.dim(1);
  visit_float(io.x.dtype(), [&]<class T>() {
    const auto kernel = io.log ? &log_softmax_row<T> : &softmax_row<T>;
    for (std::int64_t row = begin; row < end; ++row)
      kernel(io.x.data<T>() + row * width, io.y.data<T>() + row * width, width);
  });
}

void softmax_backward_rows(const kernels::SoftmaxVjp& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = io.g.dim(1);
  visit_float(io.g.dtype(), [&]<class T>() {
    const auto kernel = io.log ? &log_vjp_row<T> : &vjp_row<T>;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * width;
      kernel(io.g.data<T>() + at, io.y.data<T>() + at, io.dx.data<T>() + at, width);
    }
  });
}

void log_sum_exp_rows(const Tensor& x, const Tensor& y, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = x.dim(1);
  visit_float(x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = x.data<T>() + row * width;
      const R top = row_max(in, width), sum = row_exp_sum(in, top, width);
      y.data<R>()[row] = sum == 0 ? -math::kInfinity<R> : top + math::log(sum);
    }
  });
}

template <class T, class R>
HWY_FLATTEN void share_row(const T* HWY_RESTRICT x, R sum, R g, T* HWY_RESTRICT dx, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) dx[i] = T(g * math::exp(static_cast<R>(x[i]) - sum));
}

void log_sum_exp_backward_rows(const kernels::LogSumExpVjp& io, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = io.x.dim(1);
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    for (std::int64_t row = begin; row < end; ++row) {
      const R sum = io.y.data<R>()[row];
      T* dx = io.dx.data<T>() + row * width;
      if (sum == -math::kInfinity<R>)
        std::fill_n(dx, width, T(R(0)));
      else
        share_row(io.x.data<T>() + row * width, sum, io.g.data<R>()[row], dx, width);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_backward_rows);
HWY_EXPORT(log_sum_exp_rows);
HWY_EXPORT(log_sum_exp_backward_rows);

}  // namespace

template <>
void kernels::softmax<Device::cpu>(const Context& context, const Softmax& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(softmax_rows);
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

template <>
void kernels::softmax_backward<Device::cpu>(const Context& context, const SoftmaxVjp& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(softmax_backward_rows);
  for_rows(context, io.g.dim(0), io.g.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

template <>
void kernels::log_sum_exp<Device::cpu>(const Context& context, const LogSumExp& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(log_sum_exp_rows);
  for_rows(context, io.x.dim(0), io.x.dim(1),
           [&](std::int64_t begin, std::int64_t end) { rows(io.x, io.y, begin, end); });
}

template <>
void kernels::log_sum_exp_backward<Device::cpu>(const Context& context, const LogSumExpVjp& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(log_sum_exp_backward_rows);
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

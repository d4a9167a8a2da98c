#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <cmath>
#include <cstring>

#include "hwy/highway.h"
#include "ops/cpu/chunk-inl.h"
#include "ops/cpu/dropout-inl.h"
#include "ops/cpu/scalar.h"
#include "ops/elementwise_kernels.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class R>
void add_to(const R* HWY_RESTRICT a, const R* HWY_RESTRICT b, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

template <class R>
void sub_to(const R* HWY_RESTRICT a, const R* HWY_RESTRICT b, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] - b[i];
}

template <class R>
void mul_to(const R* HWY_RESTRICT a, const R* HWY_RESTRICT b, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

template <class R>
void scale_to(const R* x, R factor, R* y, std::int64_t count) {
#pragma omp simd  // y may be x
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
}

template <class R>
auto binary_loop(kernels::Binary op) {
  switch (op) {
    case kernels::Binary::add: return &add_to<R>;
    case kernels::Binary::sub: return &sub_to<R>;
    default: return &mul_to<R>;
  }
}

template <class T, class B>
void binary_typed(const kernels::BinaryTensors& io, std::int64_t begin, std::int64_t end) {
  const auto kernel = binary_loop<Wide<T>>(io.op);
  const T* a = io.a.data<T>();
  const B* b = io.b.data<B>();
  T* y = io.y.data<T>();
  const std::int64_t period = io.b.numel();
  ChunkIn<T> in_a;
  ChunkIn<B> in_b;
  ChunkOut<T> out;
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t at = i % period, count = std::min({kChunk, end - i, period - at});
    kernel(in_a.read(a + i, count), in_b.read(b + at, count), out.place(y + i), count);
    out.write(y + i, count);
    i += count;
  }
}

void binary_range(const kernels::BinaryTensors& io, std::int64_t begin, std::int64_t end) {
  visit_float_or_wide(io.a.dtype(), io.b.dtype(), [&]<class T, class B>() { binary_typed<T, B>(io, begin, end); });
}

void scale_range(const Tensor& from, double factor, const Tensor& to,
                 const std::pair<std::int64_t, std::int64_t>& range) {
  visit_float(from.dtype(), [&]<class T>() {
    const T* x = from.data<T>();
    T* y = to.data<T>();
    ChunkIn<T> in;
    ChunkOut<T> out;
    for_chunks(range.first, range.second, [&](std::int64_t i, std::int64_t count) {
      scale_to(in.read(x + i, count), static_cast<Wide<T>>(factor), out.place(y + i), count);
      out.write(y + i, count);
    });
  });
}

// The factors of elements [begin, begin + count), row by row of what they are a part of.
template <class R>
void part_factors(const kernels::DropoutTensors& io, std::int64_t begin, std::int64_t count, R* HWY_RESTRICT factors) {
  if (io.columns == 0) return dropout_factors(io.keep, io.first + begin, count, factors);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t i = begin + done, take = std::min(count - done, io.columns - i % io.columns);
    dropout_factors(io.keep, io.drawn_as(i), take, factors + done);
    done += take;
  }
}

void dropout_range(const kernels::DropoutTensors& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    const T* x = io.x.data<T>();
    T* y = io.y.data<T>();
    alignas(64) Wide<T> factors[kChunk];
    ChunkIn<T> in;
    ChunkOut<T> out;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      part_factors(io, i, count, factors);
      mul_to<Wide<T>>(in.read(x + i, count), factors, out.place(y + i), count);
      out.write(y + i, count);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(binary_range);
HWY_EXPORT(scale_range);
HWY_EXPORT(dropout_range);

// A short b is repeated until rows are long enough for a loop.
Tensor lengthen(const Context& context, const Tensor& b, std::int64_t count) {
  constexpr std::int64_t kShort = 256;
  if (b.numel() >= kShort || b.numel() >= count) return b;
  const std::int64_t copies = (kShort + b.numel() - 1) / b.numel();
  const Tensor repeated = Tensor::empty(context, {copies, b.numel()}, b.dtype(), Lifetime::scratch);
  auto* to = static_cast<std::byte*>(repeated.raw());
  for (std::int64_t i = 0; i < copies; ++i, to += b.bytes()) std::memcpy(to, b.raw(), b.bytes());
  return repeated;
}

}  // namespace

template <>
void kernels::binary<Device::cpu>(const Context& context, const BinaryTensors& io) {
  if (io.a.numel() == 0) return;
  const BinaryTensors long_io{io.op, io.a, lengthen(context, io.b, io.a.numel()), io.y};
  const auto range = HWY_DYNAMIC_DISPATCH(binary_range);
  for_elements(context, io.a.numel(), [&](std::int64_t begin, std::int64_t end) { range(long_io, begin, end); });
}

template <>
void kernels::scale<Device::cpu>(const Context& context, const ScaleTensors& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(scale_range);
  const double factor = io.by.defined() ? io.factor * cpu::scalar(io.by) : io.factor;
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) {
    range(io.x, factor, io.y, {begin, end});
  });
}

template <>
void kernels::exp_scale<Device::cpu>(const Context& context, const ExpScale& io) {
  scale<Device::cpu>(context, {std::min(std::exp(cpu::scalar(io.log)), io.most), io.x, io.y});
}

template <>
void kernels::exp_scale_backward<Device::cpu>(const Context& context, const ExpScaleVjp& io) {
  const double free = std::exp(cpu::scalar(io.log));
  scale<Device::cpu>(context, {std::min(free, io.most), io.d_log, io.d_log});
  if (free > io.most && cpu::scalar(io.d_log) < 0.0) io.d_log.fill(0.0);
}

template <>
void kernels::dropout<Device::cpu>(const Context& context, const DropoutTensors& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(dropout_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

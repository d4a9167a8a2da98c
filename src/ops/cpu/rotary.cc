#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/rotary.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Rotates pairs by their angles. kStep 2: pairs are neighbours; 1: the second halves start at `second`.
template <int kStep, class T, class R>
void rotate_pairs(const T* HWY_RESTRICT x, const R* HWY_RESTRICT cosine, const R* HWY_RESTRICT sine, T* HWY_RESTRICT y,
                  std::int64_t pairs) {
  const std::int64_t second = kStep == 2 ? 1 : pairs;
  for (std::int64_t m = 0; m < pairs; ++m) {
    const R a = static_cast<R>(x[kStep * m]), b = static_cast<R>(x[kStep * m + second]);
    y[kStep * m] = T(a * cosine[m] - b * sine[m]);
    y[kStep * m + second] = T(a * sine[m] + b * cosine[m]);
  }
}

template <class T>
void rotate_typed(const cpu::RotateRows& io, std::int64_t begin, std::int64_t end) {
  using R = Wide<T>;
  const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), d = io.x.dim(3), pairs = io.width / 2;
  const auto kernel = io.halves ? &rotate_pairs<1, T, R> : &rotate_pairs<2, T, R>;
  for (std::int64_t row = begin; row < end; ++row) {
    const R* cosine = io.angles.table.data<R>() + io.angles.row.data<std::int32_t>()[row] * io.width;
    const T* x = io.x.data<T>() + row / n * io.x.stride(0) + row % n * io.x.stride(1);
    T* y = io.y.data<T>() + row * heads * d;
    for (std::int64_t h = 0; h < heads; ++h, x += io.x.stride(2), y += d) {
      kernel(x, cosine, cosine + pairs, y, pairs);
      std::copy(x + io.width, x + d, y + io.width);
    }
  }
}

void rotate_rows(const cpu::RotateRows& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() { rotate_typed<T>(io, begin, end); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(rotate_rows);

}  // namespace

template <>
void kernels::rotate<Device::cpu>(const Context& context, const Rotate& io) {
  const auto run = HWY_DYNAMIC_DISPATCH(rotate_rows);
  const std::int64_t width = (io.rotary.width == 0 ? io.x.dim(3) : io.rotary.width) / 2 * 2;
  const cpu::RotateRows rows{io.rotary.halves, width, io.x, io.y, cpu::make_angles(context, io, width)};
  for_rows(context, io.x.dim(0) * io.x.dim(1), io.x.dim(2) * io.x.dim(3),
           [&](std::int64_t begin, std::int64_t end) { run(rows, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotated_features.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/cpu/chunk-inl.h"
#include "ops/rotated_features_kernels.h"
#include "ops/work.h"
#include "policy/log_sigmoid.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

// Sine and cosine of a row's angle.
template <class R>
struct Angle {
  R sine, cosine;
};

template <class T, class R>
void rotate(const T* HWY_RESTRICT x, Angle<R> angle, T* HWY_RESTRICT y, std::int64_t d) {
  T* HWY_RESTRICT second = y + d;
  for (std::int64_t c = 0; c < d; ++c) {
    const R value = static_cast<R>(x[c]), kept = value < 0 ? R{0} : value;
    y[c] = T(kept * angle.sine);
    second[c] = T(kept * angle.cosine);
  }
}

template <class T, class R>
void rotate_back(const T* HWY_RESTRICT x, Angle<R> angle, const T* HWY_RESTRICT dy, T* HWY_RESTRICT dx,
                 std::int64_t d) {
  const T* HWY_RESTRICT second = dy + d;
  for (std::int64_t c = 0; c < d; ++c) {
    const R g = static_cast<R>(dy[c]) * angle.sine + static_cast<R>(second[c]) * angle.cosine;
    dx[c] = T(static_cast<R>(x[c]) > 0 ? g : R{0});
  }
}

void rotate_rows(const kernels::RotatedFeatures& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), d = io.x.dim(3);
    for (std::int64_t row = begin; row < end; ++row) {
      const Angle<R> angle{io.rotations.data<R>()[2 * row], io.rotations.data<R>()[2 * row + 1]};
      const T* x = io.x.data<T>() + row / n * io.x.stride(0) + row % n * io.x.stride(1);
      T* y = io.y.data<T>() + row * heads * 2 * d;
      T* dx = io.dx.defined() ? io.dx.data<T>() + row / n * io.dx.stride(0) + row % n * io.dx.stride(1) : nullptr;
      for (std::int64_t h = 0; h < heads; ++h, x += io.x.stride(2), y += 2 * d)
        if (dx == nullptr)
          rotate(x, angle, y, d);
        else
          rotate_back(x, angle, y, dx + h * io.dx.stride(2), d);
    }
  });
}

template <class R>
HWY_FLATTEN void apply(const R* HWY_RESTRICT x, R factor, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = factor * policy::LogSigmoid::apply(x[i]);
}

template <class R>
HWY_FLATTEN void vjp(const R* HWY_RESTRICT g, const R* HWY_RESTRICT x, R factor, R* HWY_RESTRICT dx,
                     std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = g[i] * factor * policy::LogSigmoid::slope(x[i]);
}

void log_sigmoid_range(const kernels::LogSigmoid& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    ChunkIn<T> x, g;
    ChunkOut<T> out;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      T* to = io.out.data<T>() + i;
      const R* values = x.read(io.x.data<T>() + i, count);
      const R factor = static_cast<R>(io.factor);
      if (io.g.defined())
        vjp(g.read(io.g.data<T>() + i, count), values, factor, out.place(to), count);
      else
        apply(values, factor, out.place(to), count);
      out.write(to, count);
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

HWY_EXPORT(rotate_rows);
HWY_EXPORT(log_sigmoid_range);

}  // namespace

template <>
void kernels::rotate_features<Device::cpu>(const Context& context, const RotatedFeatures& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(rotate_rows);
  for_rows(context, io.x.dim(0) * io.x.dim(1), 2 * io.x.dim(2) * io.x.dim(3),
           [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

template <>
void kernels::log_sigmoid<Device::cpu>(const Context& context, const LogSigmoid& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(log_sigmoid_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

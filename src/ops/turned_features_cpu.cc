#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/turned_features_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "ops/chunk-inl.h"
#include "ops/turned_features_cpu.h"
#include "ops/work.h"
#include "policy/math.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

template <class T, class R>
void turn(const T* HWY_RESTRICT x, R sine, R cosine, T* HWY_RESTRICT y, std::int64_t d) {
  T* HWY_RESTRICT second = y + d;
  for (std::int64_t c = 0; c < d; ++c) {
    const R value = static_cast<R>(x[c]), kept = value < 0 ? R{0} : value;
    y[c] = T(kept * sine);
    second[c] = T(kept * cosine);
  }
}

template <class T, class R>
void turn_back(const T* HWY_RESTRICT x, R sine, R cosine, const T* HWY_RESTRICT dy, T* HWY_RESTRICT dx,
               std::int64_t d) {
  const T* HWY_RESTRICT second = dy + d;
  for (std::int64_t c = 0; c < d; ++c) {
    const R g = static_cast<R>(dy[c]) * sine + static_cast<R>(second[c]) * cosine;
    dx[c] = T(static_cast<R>(x[c]) > 0 ? g : R{0});
  }
}

void turn_rows(const cpu::TurnedFeatures& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    const std::int64_t n = io.x.dim(1), heads = io.x.dim(2), d = io.x.dim(3);
    for (std::int64_t row = begin; row < end; ++row) {
      const R sine = io.turns.data<R>()[2 * row], cosine = io.turns.data<R>()[2 * row + 1];
      const T* x = io.x.data<T>() + row / n * io.x.stride(0) + row % n * io.x.stride(1);
      T* y = io.y.data<T>() + row * heads * 2 * d;
      T* dx = io.dx.defined() ? io.dx.data<T>() + row / n * io.dx.stride(0) + row % n * io.dx.stride(1) : nullptr;
      for (std::int64_t h = 0; h < heads; ++h, x += io.x.stride(2), y += 2 * d)
        if (dx == nullptr)
          turn(x, sine, cosine, y, d);
        else
          turn_back(x, sine, cosine, y, dx + h * io.dx.stride(2), d);
    }
  });
}

template <class R>
HWY_FLATTEN void apply(const R* HWY_RESTRICT x, R factor, R* HWY_RESTRICT y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const R low = x[i] < 0 ? x[i] : R{0};
    y[i] = factor * (low - math::log(1 + math::exp(-math::absolute(x[i]))));
  }
}

template <class R>
HWY_FLATTEN void pull(const R* HWY_RESTRICT g, const R* HWY_RESTRICT x, R factor, R* HWY_RESTRICT dx,
                      std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = g[i] * factor * math::sigmoid(-x[i]);
}

void log_sigmoid_range(const cpu::LogSigmoid& io, std::int64_t begin, std::int64_t end) {
  visit_float(io.x.dtype(), [&]<class T>() {
    using R = Wide<T>;
    ChunkIn<T> x, g;
    ChunkOut<T> out;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      T* to = io.out.data<T>() + i;
      const R* values = x.read(io.x.data<T>() + i, count);
      const R factor = static_cast<R>(io.factor);
      if (io.g.defined())
        pull(g.read(io.g.data<T>() + i, count), values, factor, out.place(to), count);
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

HWY_EXPORT(turn_rows);
HWY_EXPORT(log_sigmoid_range);

}  // namespace

void cpu::turn_features(const Context& context, const TurnedFeatures& io) {
  const auto rows = HWY_DYNAMIC_DISPATCH(turn_rows);
  for_rows(context, io.x.dim(0) * io.x.dim(1), 2 * io.x.dim(2) * io.x.dim(3),
           [&](std::int64_t begin, std::int64_t end) { rows(io, begin, end); });
}

void cpu::log_sigmoid(const Context& context, const LogSigmoid& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(log_sigmoid_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

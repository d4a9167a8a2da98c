#include "ops/rotary_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/wide.h"
#include "ops/cuda/packs.cuh"
#include "ops/cuda/split.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Radians for each position, of as many pairs as go along with a launch.
struct Frequencies {
  static constexpr std::int64_t kMost = 128;
  double of[kMost];

  Frequencies(const Rotary& rotary, std::int64_t width, std::int64_t first, std::int64_t count) {
    for (std::int64_t m = 0; m < count; ++m)
      of[m] = rotary.stretch.slowed(
          std::pow(rotary.base, -2.0 * static_cast<double>(first + m) / static_cast<double>(width)));
  }
};

// (b n, 2, pairs), wide: cosines and sines of the angles of each row, from doubles: long positions keep their phase.
template <class R>
Tensor angles_of(const Context& context, const kernels::Rotate& io, std::int64_t width) {
  const std::int64_t pairs = width / 2, rows = io.positions.numel();
  const Tensor angles = Tensor::empty(context, {rows, 2, pairs}, wide_type(io.x.dtype()), Lifetime::scratch);
  const std::int32_t* const positions = pointer<std::int32_t>(io.positions);
  const double sign = io.back ? -1.0 : 1.0;
  for (std::int64_t first = 0; first < pairs; first += Frequencies::kMost) {
    const std::int64_t count = std::min(pairs - first, Frequencies::kMost);
    const Frequencies frequencies(io.rotary, width, first, count);
    R* const to = pointer<R>(angles) + first;
    each(context, rows * count, [=] __device__(std::int64_t i) {
      const Split at = split(i, count);
      double sine, cosine;
      sincos(sign * static_cast<double>(positions[at.whole]) * frequencies.of[at.rest], &sine, &cosine);
      to[2 * at.whole * pairs + at.rest] = static_cast<R>(cosine);
      to[(2 * at.whole + 1) * pairs + at.rest] = static_cast<R>(sine);
    });
  }
  return angles;
}

// x (b, n, heads, d) -> y, dense; kUnit pairs, or channels that are not rotated, a thread.
template <class R, int kUnit>
struct RotatePairs {
  bool halves;
  std::int64_t n, heads, d, pairs;
  Elements<R> x, y, angles;
  std::int64_t item, row, head;  // strides of x

  // Of neighbours that are pairs in turns, the first and the second ones; and back.
  __device__ static void part(R (&a)[kUnit], R (&b)[kUnit]) {
    R all[2 * kUnit];
#pragma unroll
    for (int e = 0; e < kUnit; ++e) all[e] = a[e], all[kUnit + e] = b[e];
#pragma unroll
    for (int e = 0; e < kUnit; ++e) a[e] = all[2 * e], b[e] = all[2 * e + 1];
  }
  __device__ static void join(R (&a)[kUnit], R (&b)[kUnit]) {
    R all[2 * kUnit];
#pragma unroll
    for (int e = 0; e < kUnit; ++e) all[2 * e] = a[e], all[2 * e + 1] = b[e];
#pragma unroll
    for (int e = 0; e < kUnit; ++e) a[e] = all[e], b[e] = all[kUnit + e];
  }

  __device__ std::int64_t units() const { return (d - pairs) / kUnit; }
  __device__ void operator()(std::int64_t i) const {
    const Split by_unit = split(i, units()), by_head = split(by_unit.whole, heads), by_row = split(by_head.whole, n);
    const std::int64_t from = by_row.whole * item + by_row.rest * row + by_head.rest * head, to = by_unit.whole * d;
    const std::int64_t m = by_unit.rest * kUnit;  // the first pair
    R a[kUnit];
    if (m >= pairs) {
      load(x, from + m + pairs, a);
      return store(y, to + m + pairs, a);
    }
    const std::int64_t first = halves ? m : 2 * m, second = halves ? pairs + m : 2 * m + kUnit;
    R b[kUnit], cosine[kUnit], sine[kUnit];
    load(x, from + first, a);
    load(x, from + second, b);
    load(angles, 2 * by_head.whole * pairs + m, cosine);
    load(angles, (2 * by_head.whole + 1) * pairs + m, sine);
    if (!halves) part(a, b);
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      const R rotated = a[e] * cosine[e] - b[e] * sine[e];
      b[e] = a[e] * sine[e] + b[e] * cosine[e];
      a[e] = rotated;
    }
    if (!halves) join(a, b);
    store(y, to + first, a);
    store(y, to + second, b);
  }
};

template <class R, int kUnit>
void rotate_by(const Context& context, const kernels::Rotate& io, const Tensor& angles) {
  const Tensor& x = io.x;
  const std::int64_t pairs = angles.dim(2), d = x.dim(3);
  each(context, x.dim(0) * x.dim(1) * x.dim(2) * (d - pairs) / kUnit,
       RotatePairs<R, kUnit>{io.rotary.halves, x.dim(1), x.dim(2), d, pairs, elements<R>(x), elements<R>(io.y),
                             elements<R>(angles), x.stride(0), x.stride(1), x.stride(2)});
}

template <class R>
void run(const Context& context, const kernels::Rotate& io) {
  const std::int64_t width = (io.rotary.width == 0 ? io.x.dim(3) : io.rotary.width) / 2 * 2;
  const Tensor angles = angles_of<R>(context, io, width);
  const bool fits = width / 2 % kPack == 0 && io.x.dim(3) % kPack == 0 && has_packs(io.x, 3) && has_packs(io.y, 3);
  if (fits)
    rotate_by<R, kPack>(context, io, angles);
  else
    rotate_by<R, 1>(context, io, angles);
}

}  // namespace

template <>
void kernels::rotate<Device::cuda>(const Context& context, const Rotate& io) {
  visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
}

}  // namespace fovea

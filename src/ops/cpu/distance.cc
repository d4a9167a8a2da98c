#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/distance.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <vector>

#include "hwy/highway.h"
#include "ops/cpu/chunk-inl.h"
#include "ops/cpu/scalar.h"
#include "ops/distance_kernels.h"
#include "ops/distance_policy.h"
#include "ops/work.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace {

using Squared = policy::SquaredDistance;
using Absolute = policy::AbsoluteDistance;

template <class P, class R>
double sum_of(const R* HWY_RESTRICT x, const R* HWY_RESTRICT target, std::int64_t count) {
  double sum = 0;  // in float the digits lost would depend on how many lanes add
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(P::apply(x[i] - target[i]));
  return sum;
}

template <class P, class R>
void vjp(const R* HWY_RESTRICT x, const R* HWY_RESTRICT target, R scale, R* HWY_RESTRICT dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = scale * P::slope(x[i] - target[i]);
}

double distance_range(const kernels::DistanceTensors& io, std::int64_t begin, std::int64_t end) {
  double sum = 0.0;
  visit_float_or_wide(io.x.dtype(), io.target.dtype(), [&]<class T, class B>() {
    const auto kernel = io.kind == kernels::Distance::squared ? &sum_of<Squared, Wide<T>> : &sum_of<Absolute, Wide<T>>;
    ChunkIn<T> x;
    ChunkIn<B> target;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      const auto* from = x.read(io.x.data<T>() + i, count);
      sum += kernel(from, target.read(io.target.data<B>() + i, count), count);
    });
  });
  return sum;
}

void distance_backward_range(const kernels::DistanceVjp& io, double scale, std::int64_t begin, std::int64_t end) {
  visit_float_or_wide(io.x.dtype(), io.target.dtype(), [&]<class T, class B>() {
    using R = Wide<T>;
    const auto kernel = io.kind == kernels::Distance::squared ? &vjp<Squared, R> : &vjp<Absolute, R>;
    ChunkIn<T> x;
    ChunkIn<B> target;
    ChunkOut<T> out;
    for_chunks(begin, end, [&](std::int64_t i, std::int64_t count) {
      T* to = io.dx.data<T>() + i;
      const R* from = x.read(io.x.data<T>() + i, count);
      kernel(from, target.read(io.target.data<B>() + i, count), static_cast<R>(scale), out.place(to), count);
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

HWY_EXPORT(distance_range);
HWY_EXPORT(distance_backward_range);

}  // namespace

template <>
void kernels::distance<Device::cpu>(const Context& context, const DistanceTensors& io) {
  const auto range = HWY_DYNAMIC_DISPATCH(distance_range);
  const RowBlocks blocks(io.x.numel(), 1);
  std::vector<double> partial(static_cast<std::size_t>(blocks.count), 0.0);
  for_blocks(context, blocks, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(block)] = range(io, begin, end);
  });
  double sum = 0.0;
  for (const double part : partial) sum += part;
  io.loss.fill(sum / static_cast<double>(io.x.numel()));
}

template <>
void kernels::distance_backward<Device::cpu>(const Context& context, const DistanceVjp& io) {
  const double scale = cpu::scalar(io.g) / static_cast<double>(io.x.numel());
  const auto range = HWY_DYNAMIC_DISPATCH(distance_backward_range);
  for_elements(context, io.x.numel(), [&](std::int64_t begin, std::int64_t end) { range(io, scale, begin, end); });
}

}  // namespace fovea
#endif  // HWY_ONCE

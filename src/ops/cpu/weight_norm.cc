#include "ops/weight_norm_kernels.h"

#include <cmath>

#include "ops/column_sum_kernels.h"
#include "ops/cpu/channel.h"
#include "ops/work.h"

namespace fovea {
namespace {

void mix_rows(const Context& context, const cpu::Mix& io, const Tensor& numbers) {
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) {
    cpu::mix_channels(io, numbers.raw(), {begin, end});
  });
}

}  // namespace

template <>
void kernels::weight_norm<Device::cpu>(const Context& context, const WeightNorm& io) {
  const std::int64_t out = io.v.dim(1);
  const Tensor squares = column_sums<Device::cpu>(context, {io.v, io.v});
  const Tensor numbers = Tensor::zeros(context, {cpu::kCoefficients, out}, squares.dtype());
  visit_wide(squares.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < out; ++c) {
      const R norm = std::sqrt(squares.data<R>()[c]);
      io.norms.data<R>()[c] = norm;
      numbers.data<R>()[cpu::kFromX * out + c] = norm > 0 ? io.s.data<R>()[c] / norm : R(0);
    }
  });
  mix_rows(context, {io.v, {}, io.w}, numbers);
}

template <>
void kernels::weight_norm_backward<Device::cpu>(const Context& context, const WeightNormVjp& io) {
  const std::int64_t out = io.v.dim(1);
  const Tensor dots = column_sums<Device::cpu>(context, {io.g, io.v});
  const Tensor numbers = Tensor::zeros(context, {cpu::kCoefficients, out}, io.s.dtype());
  visit_wide(io.s.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < out; ++c) {
      const R length = io.norms.data<R>()[c], inverse = length > 0 ? 1 / length : R(0),
              dot = dots.data<R>()[c] * inverse;
      const R factor = io.s.data<R>()[c] * inverse;
      io.ds.data<R>()[c] = dot;
      numbers.data<R>()[cpu::kFromG * out + c] = factor;
      numbers.data<R>()[cpu::kFromX * out + c] = -factor * dot * inverse;
    }
  });
  if (io.dv.defined()) mix_rows(context, {io.v, io.g, io.dv}, numbers);
}

}  // namespace fovea

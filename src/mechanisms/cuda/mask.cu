#include "mechanisms/mask_kernels.h"

#include <array>

#include "core/wide.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void run(const Context& context, const kernels::MaskBias& io) {
  const MapPlan plan(std::array{io.out, io.bias, io.mask});
  const Elements<R> out = elements<R>(io.out), bias = elements<R>(io.bias);
  const std::uint8_t* const mask = pointer<std::uint8_t>(io.mask);
  each(context, plan.count, [=] __device__(std::int64_t i) {
    std::int64_t at[3];
    plan.place(i, at);
    const R kept = bias.defined() ? bias[at[1]] : R(0);
    out.put(at[0], mask[at[2]] != 0 ? kept : -math::kInfinity<R>);
  });
}

// Where the elements of `grad` lie that belong to one of d_bias: along the axes on which that is repeated.
struct Repeats {
  std::int64_t count = 1;
  std::int64_t size[4] = {1, 1, 1, 1}, of_grad[4] = {}, of_mask[4] = {};

  Repeats(const Tensor& grad, const Tensor& mask, const Tensor& d_bias) {
    for (int axis = 0; axis < 4; ++axis) {
      if (d_bias.dim(axis) == grad.dim(axis)) continue;
      size[axis] = grad.dim(axis);
      count *= grad.dim(axis);
      of_grad[axis] = grad.stride(axis);
      of_mask[axis] = mask.dim(axis) == 1 ? 0 : mask.stride(axis);
    }
  }
};

template <class R>
struct SumRepeats {
  MapPlan plan;  // d_bias, and the first of grad and mask for each of its elements
  Repeats repeats;
  Elements<R> d_bias, grad;
  const std::uint8_t* mask;

  // The sum over every `step`-th repeat from `first` on.
  __device__ R sum(std::int64_t i, std::int64_t first, std::int64_t step) const {
    std::int64_t at[3];
    plan.place(i, at);
    R total = 0;
    for (std::int64_t t = first; t < repeats.count; t += step) {
      std::int64_t rest = t, g = at[1], m = at[2];
      for (int axis = 3; axis >= 0; --axis) {
        const std::int64_t index = rest % repeats.size[axis];
        rest /= repeats.size[axis];
        g += index * repeats.of_grad[axis];
        m += index * repeats.of_mask[axis];
      }
      if (mask[m] != 0) total += grad[g];
    }
    return total;
  }
  __device__ void operator()(std::int64_t i) const { d_bias.put(i, d_bias[i] + sum(i, 0, 1)); }
  template <class G>
  requires requires(G g) { g.lane; }
  __device__ void operator()(const G& g) const {
    const R total = g.sum(sum(g.row, g.lane, g.lanes));
    if (g.lane == 0) d_bias.put(g.row, d_bias[g.row] + total);
  }
};

template <class R>
void vjp(const Context& context, const kernels::MaskBiasVjp& io) {
  Tensor grad = io.grad, mask = io.mask;
  for (int axis = 0; axis < 4; ++axis) {
    if (io.d_bias.dim(axis) == grad.dim(axis)) continue;
    grad = grad.slice(axis, 0, std::min<std::int64_t>(1, grad.dim(axis)));
    mask = mask.slice(axis, 0, std::min<std::int64_t>(1, mask.dim(axis)));
  }
  const SumRepeats<R> sums{MapPlan(std::array{io.d_bias, grad, mask}), Repeats(io.grad, io.mask, io.d_bias),
                           elements<R>(io.d_bias), elements<R>(io.grad), pointer<std::uint8_t>(io.mask)};
  if (sums.repeats.count == 0) return;
  constexpr std::int64_t kFew = 64;
  if (sums.repeats.count <= kFew)
    each(context, io.d_bias.numel(), sums);
  else
    rows(context, io.d_bias.numel(), sums.repeats.count, sums);
}

}  // namespace

template <>
void kernels::mask_bias<Device::cuda>(const Context& context, const MaskBias& io) {
  visit_wide(io.out.dtype(), [&]<class R>() { run<R>(context, io); });
}

template <>
void kernels::mask_bias_backward<Device::cuda>(const Context& context, const MaskBiasVjp& io) {
  visit_wide(io.grad.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea

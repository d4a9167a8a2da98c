#include "core/wide.h"
#include "mechanisms/mask_kernels.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
void write(const Context& context, const kernels::MaskBias& io) {
  const MapPlan plan(std::array<Tensor, 3>{io.out, io.bias, io.mask});
  const Elements<R> out = elements<R>(io.out), bias = elements<R>(io.bias);
  const std::uint8_t* const mask = io.mask.data<std::uint8_t>();
  each(context, plan.count, [=] __device__(std::int64_t i) {
    std::int64_t at[3];
    plan.place(i, at);
    const R kept = bias.defined() ? bias[at[1]] : R(0);
    out.put(at[0], mask[at[2]] != 0 ? kept : -math::kInfinity<R>);
  });
}

// The four axes of a tensor; steps of 0 along those of size 1.
struct FourAxes {
  std::int64_t size[4], step[4];

  explicit FourAxes(const Tensor& t) {
    for (int a = 0; a < 4; ++a) size[a] = t.dim(a), step[a] = t.dim(a) == 1 ? 0 : t.stride(a);
  }
  __device__ void place(std::int64_t i, std::int64_t (&at)[4]) const {
    for (int a = 3; a >= 0; --a) {
      at[a] = i % size[a];
      i /= size[a];
    }
  }
  __device__ std::int64_t offset(const std::int64_t (&at)[4]) const {
    return at[0] * step[0] + at[1] * step[1] + at[2] * step[2] + at[3] * step[3];
  }
};

// A group sums what an element of d_bias was repeated for.
template <class R>
void pull(const Context& context, const kernels::MaskBiasPull& io) {
  const FourAxes sums(io.d_bias), grads(io.grad), masks(io.mask);
  FourAxes rest = grads;
  std::int64_t repeats = 1;
  for (int a = 0; a < 4; ++a) {
    if (io.d_bias.dim(a) != 1) rest.size[a] = 1;
    repeats *= rest.size[a];
  }
  const Elements<R> d_bias = elements<R>(io.d_bias), grad = elements<R>(io.grad);
  const std::uint8_t* const mask = io.mask.data<std::uint8_t>();
  rows(context, io.d_bias.numel(), repeats, [=] __device__(const auto& g) {
    std::int64_t at[4], more[4];
    sums.place(g.row, at);
    const std::int64_t to = sums.offset(at);
    R sum(0);
    for (std::int64_t i = g.lane; i < repeats; i += g.lanes) {
      rest.place(i, more);
      std::int64_t all[4];
      for (int a = 0; a < 4; ++a) all[a] = at[a] + more[a];
      if (mask[masks.offset(all)] != 0) sum += grad[grads.offset(all)];
    }
    sum = g.sum(sum);
    if (g.lane == 0) d_bias.put(to, d_bias[to] + sum);
  });
}

}  // namespace

template <>
void kernels::mask_bias<Device::cuda>(const Context& context, const MaskBias& io) {
  visit_wide(io.out.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::mask_bias_backward<Device::cuda>(const Context& context, const MaskBiasPull& io) {
  visit_wide(io.grad.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea

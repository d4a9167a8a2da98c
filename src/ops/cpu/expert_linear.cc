#include "ops/expert_linear_kernels.h"

#include "gemm/gemm.h"
#include "ops/activation_kernels.h"
#include "ops/column_sum_kernels.h"

namespace fovea {
namespace {

// f(e, rows) for each expert, rows(t) being its part of a tensor (rows, ...); then rest(t) is what comes after the
// last.
template <class F>
std::int64_t for_experts(const Tensor& begin, const F& f) {
  const std::int32_t* at = begin.data<std::int32_t>();
  const std::int64_t experts = begin.numel() - 1;
  for (std::int64_t e = 0; e < experts; ++e)
    f(static_cast<std::size_t>(e), [&](const Tensor& t) { return t.slice(0, at[e], at[e + 1]); });
  return at[experts];
}

void clear_after(const Tensor& t, std::int64_t last) { t.slice(0, last, t.dim(0)).fill(0.0); }

// The gradient of z, and its sum over the rows where that is wanted.
Tensor vjp(const Context& context, const kernels::ActivateVjp& io, bool wants_sum) {
  if (io.activation == Activation::identity)
    return wants_sum ? kernels::column_sums<Device::cpu>(context, {io.g, {}}) : Tensor();
  if (wants_sum) return kernels::activate_backward_and_sum<Device::cpu>(context, io);
  kernels::activate_backward<Device::cpu>(context, io);
  return {};
}

}  // namespace

template <>
void kernels::expert_linear<Device::cpu>(const Context& context, const ExpertProducts& io) {
  const bool relu = io.activation == Activation::relu;
  const std::int64_t last = for_experts(io.begin, [&](std::size_t e, const auto& rows) {
    if (rows(io.x).dim(0) == 0) return;
    gemm::multiply(context, rows(io.x), io.weights[e], rows(io.z),
                   {.bias = io.biases.empty() ? Tensor() : io.biases[e], .relu = relu});
    if (io.activation != Activation::identity && !relu)
      kernels::activate<Device::cpu>(context, {io.activation, rows(io.z), rows(io.y)});
  });
  clear_after(io.z, last);
  if (io.y.raw() != io.z.raw()) clear_after(io.y, last);
}

template <>
void kernels::expert_linear_backward<Device::cpu>(const Context& context, const ExpertVjps& io) {
  const std::int64_t last = for_experts(io.begin, [&](std::size_t e, const auto& rows) {
    const auto& [grad, fresh] = io.d_weights[e];
    const Tensor d_bias = io.d_biases.defined() ? io.d_biases.select(0, static_cast<std::int64_t>(e)) : Tensor();
    if (rows(io.x).dim(0) == 0) {
      if (grad.defined() && fresh) grad.fill(0.0);
      if (d_bias.defined()) d_bias.fill(0.0);
      return;
    }
    const Tensor dz = rows(io.dz);
    const Tensor saved = io.saved.defined() ? rows(io.saved) : Tensor();
    const Tensor sum = vjp(context, {io.activation, rows(io.g), saved, dz}, d_bias.defined());
    if (d_bias.defined()) d_bias.copy_from(sum);
    if (grad.defined())
      gemm::multiply(context, rows(io.x).transpose(0, 1), dz, grad, {.bias = {}, .relu = false, .accumulate = !fresh});
    if (io.dx.defined()) gemm::multiply(context, dz, io.weights[e].transpose(0, 1), rows(io.dx));
  });
  if (io.dx.defined()) clear_after(io.dx, last);
}

}  // namespace fovea

#include "mechanisms/mask.h"

#include "core/visit_device.h"
#include "mechanisms/mask_kernels.h"

namespace fovea {
namespace {

void masked_bias_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const kernels::MaskBiasVjp io{node.saved[0], node.grad().contiguous(context),
                                Tensor::zeros(context, node.inputs[0]->shape, node.inputs[0]->dtype)};
  visit_device(context, io, [&]<Device D>() { kernels::mask_bias_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.d_bias);
}

constexpr Op kMaskedBias{"masked_bias", masked_bias_backward};

}  // namespace

Pattern kept_by(const AttentionOptions& options, Pattern pattern) {
  if (options.causal) pattern = pattern & Pattern::causal();
  if (options.window) pattern = pattern & Pattern::window(options.window->left, options.window->right);
  if (options.pattern) pattern = pattern & *options.pattern;
  return pattern;
}

Var masked_bias(Tape& tape, const Var& bias, const Tensor& mask, DType dtype) {
  if (!mask.defined()) return bias;
  Shape shape = mask.shape();
  for (int i = 0; bias.defined() && i < 4; ++i)
    if (mask.dim(i) == 1) shape.set(i, bias.dim(i));  // which may be 0
  const kernels::MaskBias io{bias.value(), mask, Tensor::empty(tape.context(), shape, dtype)};
  visit_device(tape.context(), io, [&]<Device D>() { kernels::mask_bias<D>(tape.context(), io); });
  return tape.record(kMaskedBias, {bias}, io.out, {mask});
}

}  // namespace fovea

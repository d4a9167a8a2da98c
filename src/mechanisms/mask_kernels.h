#pragma once

#include "fovea/tensor.h"

// Bias and mask over pairs, four axes each; of size 1 where one serves all.
namespace fovea::kernels {

// out, dense, = bias where mask (u8) is not 0, else -inf. Undefined bias: 0.
struct MaskBias {
  Tensor bias, mask, out;
};
template <Device>
void mask_bias(const Context& context, const MaskBias& io);

// d_bias += grad, dense, where the mask is not 0; d_bias starts as 0.
struct MaskBiasVjp {
  Tensor mask, grad, d_bias;
};
template <Device>
void mask_bias_backward(const Context& context, const MaskBiasVjp& io);

}  // namespace fovea::kernels

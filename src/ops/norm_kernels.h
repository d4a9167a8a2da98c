#pragma once

#include "fovea/ops.h"
#include "ops/dropout.h"

// Kernels of the norms. Tensors are dense (rows, width); statistics, gain and bias are in the wide type.
namespace fovea::kernels {

// y = norm(sum), sum = x + keep(branch); without a branch sum is x itself.
struct NormForward {
  NormKind kind = NormKind::layer;
  double eps = 0.0;
  Dropout keep;
  Tensor x, branch;  // branch may be undefined
  Tensor sum, y;
  Tensor gain, bias;  // (width)
  Tensor stats;       // (rows, 2): what backward needs of a row, see RowStats in cpu/norm.cc
};
template <Device>
void norm_forward(const Context& context, const NormForward& io);

// dx = the gradient of sum: what comes through the norm plus g_sum. dbranch = dx where kept.
struct NormBackward {
  NormKind kind = NormKind::layer;
  Dropout keep;
  Tensor sum, stats, gain;
  Tensor g, g_sum;        // g_sum may be undefined
  Tensor dx, dbranch;     // dbranch may be undefined
  Tensor d_gain, d_bias;  // (width); undefined: not wanted
};
template <Device>
void norm_backward(const Context& context, const NormBackward& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/ops.h"
#include "ops/dropout.h"
#include "ops/work.h"

// The loops of the norms. Tensors are dense (rows, width); statistics, gain and bias are in the wide type.
namespace fovea::cpu {

// y = norm(sum), sum = x + keep(branch); without a branch sum is x itself.
struct NormForward {
  NormKind kind = NormKind::layer;
  double eps = 0.0;
  Keep keep;
  Tensor x, branch;  // branch may be undefined
  Tensor sum, y;
  Tensor gain, bias;  // (width)
  Tensor stats;       // (rows, 2): what backward needs of a row, see RowStats in norm_cpu.cc
};
void norm_forward(const Context& context, const NormForward& io);

// dx = the gradient of sum: what comes through the norm plus g_sum. dbranch = dx where kept.
struct NormBackward {
  NormKind kind = NormKind::layer;
  Keep keep;
  Tensor sum, stats, gain;
  Tensor g, g_sum;                    // g_sum may be undefined
  Tensor dx, dbranch;                 // dbranch may be undefined
  Tensor partial_gain, partial_bias;  // (blocks, width), overwritten
};
void norm_backward(const Context& context, const NormBackward& io, const RowBlocks& blocks);

}  // namespace fovea::cpu

#pragma once

#include "fovea/ops.h"

// The loops of cross-entropy. Logits are dense (rows, classes); targets have been checked.
namespace fovea::cpu {

struct LossForward {
  CrossEntropy options;
  Tensor logits, targets;
  Tensor lse;  // (rows), wide type: log-sum-exp of each row that counts
};
// The sum over the rows that count.
double cross_entropy(const Context& context, const LossForward& io);

struct LossBackward {
  CrossEntropy options;
  Tensor logits, targets, lse;
  double scale;  // gradient of the loss / rows that count
  Tensor dx;
};
void cross_entropy_backward(const Context& context, const LossBackward& io);

}  // namespace fovea::cpu

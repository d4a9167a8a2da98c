#pragma once

#include "fovea/ops.h"

// The loops of cross-entropy. Logits are dense (rows, classes); targets have been checked.
namespace fovea::cpu {

struct LossForward {
  CrossEntropy options;
  Tensor logits, targets;
  // (rows, 2), wide type: the largest logit of each row that counts, and log sum_c exp(x_c - largest). Their sum would
  // forget the second where logits are large.
  Tensor peaks;
};
// Over the rows that count.
struct LossSum {
  double loss = 0.0;
  std::int64_t correct = 0;  // rows whose target has the first of the largest logits
};
LossSum cross_entropy(const Context& context, const LossForward& io);

struct LossBackward {
  CrossEntropy options;
  Tensor logits, targets, peaks;
  double scale;  // gradient of the loss / rows that count
  Tensor dx;
};
void cross_entropy_backward(const Context& context, const LossBackward& io);

}  // namespace fovea::cpu

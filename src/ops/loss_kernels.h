#pragma once

#include "fovea/ops.h"

// Kernels of cross-entropy. Logits are dense (rows, classes); targets have been checked.
namespace fovea::kernels {

struct TargetCheck {
  Tensor targets;
  std::int64_t classes;
  std::int32_t ignore_index;
};
struct TargetCount {
  std::int64_t counted = 0;
  std::int64_t bad = -1;  // the first row whose target is no class; -1: none
};
template <Device>
TargetCount count_targets(const Context& context, const TargetCheck& io);

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
template <Device>
LossSum cross_entropy(const Context& context, const LossForward& io);

struct LossBackward {
  CrossEntropy options;
  Tensor logits, targets, peaks;
  Tensor g;              // of the loss, a scalar; undefined: 1
  std::int64_t counted;  // what g is divided by; with none nothing flows
  Tensor dx;
};
template <Device>
void cross_entropy_backward(const Context& context, const LossBackward& io);

}  // namespace fovea::kernels

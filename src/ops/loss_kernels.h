#pragma once

#include "fovea/ops.h"

// Kernels of cross-entropy. Logits are dense (rows, classes); targets have been checked.
namespace fovea::kernels {

// `place`, an i64 scalar: the first row whose target is neither a class nor the ignore index; -1: none.
struct TargetCheck {
  Tensor targets;
  std::int64_t classes;
  std::int32_t ignore_index;
  Tensor place;
};
template <Device>
void check_targets(const Context& context, const TargetCheck& io);

struct LossForward {
  CrossEntropy options;
  Tensor logits, targets;
  // (rows, 2), wide type: the largest logit of each row that counts, and log sum_c exp(x_c - largest). Their sum would
  // forget the second where logits are large.
  Tensor peaks;
  // f64 (3), added to: over the rows that count the losses, their number, and that of those whose target has the first
  // of the largest logits.
  Tensor sums;
};
template <Device>
void cross_entropy(const Context& context, const LossForward& io);

// loss, a scalar in a wide type: the sum of losses by the number of rows; 0 where none counts.
struct MeanLoss {
  Tensor sums, loss;
};
template <Device>
void mean_loss(const Context& context, const MeanLoss& io);

// rate, f64 scalar: what the loss of one row is multiplied by; g by the number of rows, 0 where none counts.
struct LossRate {
  Tensor g, sums, rate;
};
template <Device>
void loss_rate(const Context& context, const LossRate& io);

struct LossBackward {
  CrossEntropy options;
  Tensor logits, targets, peaks;
  Tensor rate;  // as LossRate has it; undefined: 1
  Tensor dx;
};
template <Device>
void cross_entropy_backward(const Context& context, const LossBackward& io);

// sum, f64 scalar: of |x - y|, dense in a wide type.
struct AbsoluteErrors {
  Tensor x, y, sum;
};
template <Device>
void absolute_errors(const Context& context, const AbsoluteErrors& io);

}  // namespace fovea::kernels

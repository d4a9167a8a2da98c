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

// The target of a row that counts where the logits are some of the classes, and its class is none of them.
inline constexpr std::int32_t kClassElsewhere = -2;

// What logits of some classes give to the loss of all: `peaks` as LossForward has them, of these classes, and in
// `given`, f64 (rows, 3), the target's logit (0: elsewhere), the sum of the logits, and 1 where the target has the
// first of the largest. Rows that do not count are not written.
struct LossShare {
  Tensor logits, targets;
  std::int32_t ignore_index;
  Tensor peaks, given;
};
template <Device>
void share_of_loss(const Context& context, const LossShare& io);

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

// Logits of some classes have the peaks of all.
struct LossBackward {
  CrossEntropy options;
  Tensor logits, targets, peaks;
  Tensor rate;  // as LossRate has it; undefined: 1
  Tensor dx;
  std::int64_t all_classes = 0;  // 0: as many as the logits have

  std::int64_t classes() const { return all_classes > 0 ? all_classes : logits.dim(1); }
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

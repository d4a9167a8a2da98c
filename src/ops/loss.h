#pragma once

#include <functional>

#include "fovea/ops.h"

// What losses share. `sums` are those of kernels::LossForward.
namespace fovea {

// The targets of logits (..., classes) where the context runs, dense; refuses those that do not fit them.
Tensor checked_targets(const Context& context, const Shape& logits, const Index& targets, const CrossEntropy& options);

// The mean over the rows that count, a scalar in the wide type; 0 where none does.
Tensor mean_loss(const Context& context, const Tensor& sums, DType dtype);
ClassLoss loss_of(const Var& value, const Tensor& sums);
// What g, the gradient of that mean, is for each row that counts: f64 scalar.
Tensor loss_rate(const Context& context, const Tensor& g, const Tensor& sums);

// Classes that others have the rest of. Targets are numbers of the classes here, kernels::kClassElsewhere, or ignored.
struct ClassShare {
  std::int64_t all_classes;
  // A block of rows: makes the peaks of kernels::LossShare those of all classes, and adds its losses to the sums of
  // kernels::LossForward.
  std::function<void(const Tensor& targets, const Tensor& peaks, const Tensor& given, const Tensor& sums)> join;
};
// linear_class_loss() whose logits are those of some classes: the loss is that of all, the gradients those of what is
// here. `targets` have been checked.
ClassLoss linear_share_loss(Tape& tape, const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                            CrossEntropy options, const ClassShare& share);

// The sum of |x - y| over all elements, in a wide type: f64 scalar, without a gradient.
Tensor sum_of_errors(const Context& context, const Tensor& x, const Tensor& y);

}  // namespace fovea

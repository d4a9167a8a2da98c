#include "ops/loss.h"

#include "core/visit_device.h"
#include "ops/loss_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct LossAttributes {
  CrossEntropy options;
  std::int64_t counted;
};

void check_loss(const Shape& shape, const Tensor& targets, const CrossEntropy& options) {
  bool fits = shape.rank() >= 1 && targets.rank() == shape.rank() - 1;
  for (int i = 0; fits && i < targets.rank(); ++i) fits = shape.dim(i) == targets.dim(i);
  if (!fits)
    fail(ErrorCode::shape, "cross_entropy of logits " + shape.text() + " and targets " + targets.shape().text(), {},
         "logits (..., classes) and targets (...)");
  if (targets.dtype() != DType::i32)
    fail(ErrorCode::usage, "targets must be i32, got " + std::string(name_of(targets.dtype())), "targets");
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0))
    fail(ErrorCode::usage, "label smoothing must be in [0, 1], got " + std::to_string(options.label_smoothing),
         "label_smoothing");
}

// saved: logits (rows, classes), targets, peaks.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& [options, counted] = std::any_cast<const LossAttributes&>(node.attributes);
  const Tensor& logits = node.saved[0];
  const Tensor dx = Tensor::empty(context, logits.shape(), logits.dtype());
  const kernels::LossBackward io{options, logits, node.saved[1], node.saved[2], node.grad(), counted, dx};
  visit_device(context, io, [&]<Device D>() { kernels::cross_entropy_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kCrossEntropy{"cross_entropy", backward};

}  // namespace

std::int64_t count_targets(const Context& context, const Shape& logits, const Tensor& targets,
                           const CrossEntropy& options) {
  check_loss(logits, targets, options);
  const kernels::TargetCheck io{targets, logits.dim(-1), options.ignore_index};
  const auto [counted, bad] =
      visit_device(context, io, [&]<Device D>() { return kernels::count_targets<D>(context, io); });
  if (bad >= 0) {
    const auto target = static_cast<std::int64_t>(targets.reshape({-1}).select(0, bad).item());
    fail(ErrorCode::bad_input,
         "target " + std::to_string(target) + " of row " + std::to_string(bad) + " is not one of " +
             std::to_string(io.classes) + " classes",
         "targets[" + std::to_string(bad) + "]",
         "0 to " + std::to_string(io.classes - 1) + ", or the ignore index " + std::to_string(options.ignore_index));
  }
  return counted;
}

Tensor mean_loss(const Context& context, double sum, std::int64_t counted, DType dtype) {
  const Tensor loss = Tensor::empty(context, {}, wide_type(dtype));
  loss.fill(counted == 0 ? 0.0 : sum / static_cast<double>(counted));
  return loss;
}

ClassLoss class_loss(Tape& tape, const Var& logits, const Tensor& targets, CrossEntropy options) {
  const Context& context = tape.context();
  const Tensor wanted = targets.contiguous(context);
  const std::int64_t counted = count_targets(context, logits.shape(), wanted, options);
  const Tensor x = logits.value().contiguous(context).reshape({wanted.numel(), logits.dim(-1)});
  const Tensor peaks = Tensor::empty(context, {x.dim(0), 2}, wide_type(x.dtype()));
  const kernels::LossForward io{options, x, wanted, peaks};
  const kernels::LossSum sum =
      visit_device(context, io, [&]<Device D>() { return kernels::cross_entropy<D>(context, io); });
  return {tape.record(kCrossEntropy, {logits}, mean_loss(context, sum.loss, counted, x.dtype()), {x, wanted, peaks},
                      LossAttributes{options, counted}),
          counted, sum.correct};
}

}  // namespace fovea

#include "ops/loss.h"

#include "ops/index.h"
#include "ops/loss_kernels.h"
#include "ops/work.h"
#include "tensor/feed.h"

namespace fovea {
namespace {

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

[[noreturn]] void refuse_target(const Tensor& targets, std::int64_t row, std::int64_t classes, std::int32_t ignored) {
  const auto [target, where] = wrong_entry(targets, row, "targets");
  fail(ErrorCode::bad_input,
       "target " + std::to_string(target) + " of row " + std::to_string(row) + " is not one of " +
           std::to_string(classes) + " classes",
       where, "0 to " + std::to_string(classes - 1) + ", or the ignore index " + std::to_string(ignored));
}

// saved: logits (rows, classes), targets, peaks, sums.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& options = std::any_cast<const CrossEntropy&>(node.attributes);
  const Tensor& logits = node.saved[0];
  const Tensor dx = Tensor::empty(context, logits.shape(), logits.dtype());
  const kernels::LossBackward io{
      options, logits, node.saved[1], node.saved[2], loss_rate(context, node.grad(), node.saved[3]), dx};
  visit_device(context, io, [&]<Device D>() { kernels::cross_entropy_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kCrossEntropy{"cross_entropy", backward};

}  // namespace

Tensor checked_targets(const Context& context, const Shape& logits, const Index& targets, const CrossEntropy& options) {
  check_loss(logits, targets.entries, options);
  const std::int64_t classes = logits.dim(-1);
  const std::int32_t ignored = options.ignore_index;
  if (targets.within(ignored == -1 ? -1 : 0, classes)) return taken_along(context, targets.entries);
  return feed(context, [&context, given = targets.entries, classes, ignored] {
    const Tensor entries = dense_entries(context, given);
    const kernels::TargetCheck io{entries, classes, ignored, number_beside(context, entries)};
    visit_device(*entries.memory(), [&]<Device D>() { kernels::check_targets<D>(context, io); });
    const std::int64_t bad = io.place.to_vector<std::int64_t>().front();
    if (bad >= 0) refuse_target(entries, bad, classes, ignored);
    return entries;
  });
}

Tensor mean_loss(const Context& context, const Tensor& sums, DType dtype) {
  const kernels::MeanLoss io{sums, Tensor::empty(context, {}, wide_type(dtype))};
  visit_device(context, io, [&]<Device D>() { kernels::mean_loss<D>(context, io); });
  return io.loss;
}

Tensor loss_rate(const Context& context, const Tensor& g, const Tensor& sums) {
  const kernels::LossRate io{g, sums, Tensor::empty(context, {}, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::loss_rate<D>(context, io); });
  return io.rate;
}

ClassLoss loss_of(const Var& value, const Tensor& sums) { return {value, sums.select(0, 1), sums.select(0, 2)}; }

ClassLoss class_loss(Tape& tape, const Var& logits, const Index& targets, CrossEntropy options) {
  const Context& context = tape.context();
  const Tensor wanted = checked_targets(context, logits.shape(), targets, options);
  const Tensor x = logits.value().contiguous(context).reshape({wanted.numel(), logits.dim(-1)});
  const Tensor peaks = Tensor::empty(context, {x.dim(0), 2}, wide_type(x.dtype()));
  const kernels::LossForward io{options, x, wanted, peaks, Tensor::zeros(context, {3}, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::cross_entropy<D>(context, io); });
  return loss_of(tape.record(kCrossEntropy, {logits}, mean_loss(context, io.sums, x.dtype()),
                             {x, wanted, peaks, io.sums}, options),
                 io.sums);
}

Tensor sum_of_errors(const Context& context, const Tensor& x, const Tensor& y) {
  const kernels::AbsoluteErrors io{x.contiguous(context), y.contiguous(context),
                                   Tensor::empty(context, {}, DType::f64)};
  visit_device(context, io, [&]<Device D>() { kernels::absolute_errors<D>(context, io); });
  return io.sum;
}

}  // namespace fovea

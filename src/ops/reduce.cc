#include "fovea/ops.h"
#include "ops/column_sum_cpu.h"
#include "ops/work.h"

namespace fovea {
namespace {

// The sum of everything times a factor, as a scalar of the wide type.
Tensor total(const Context& context, const Tensor& x, double factor) {
  const Tensor out = cpu::column_sums(context, {x.contiguous(context).reshape({x.numel(), 1}), {}});
  const double sum = out.item();
  out.fill(sum * factor);
  return out.reshape(Shape{});
}

void backward(Tape& tape, Node& node) {
  const double factor = std::any_cast<double>(node.attributes);
  const Tensor dx = Tensor::empty(tape.context(), node.inputs[0]->shape, node.inputs[0]->dtype);
  dx.fill(node.grad().item() * factor);
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kSum{"sum", backward};
constexpr Op kMean{"mean", backward};

}  // namespace

Var sum(Tape& tape, const Var& x) { return tape.record(kSum, {x}, total(tape.context(), x.value(), 1.0), {}, 1.0); }

Var mean(Tape& tape, const Var& x) {
  if (x.value().numel() == 0) fail(ErrorCode::shape, "mean of an empty tensor of shape " + x.shape().text());
  const double factor = 1.0 / static_cast<double>(x.value().numel());
  return tape.record(kMean, {x}, total(tape.context(), x.value(), factor), {}, factor);
}

}  // namespace fovea

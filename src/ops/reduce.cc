#include "core/visit_device.h"
#include "core/wide.h"
#include "fovea/ops.h"
#include "ops/reduce_kernels.h"

namespace fovea {
namespace {

// The sum of everything times a factor, as a scalar of the wide type.
Tensor total(const Context& context, const Tensor& x, double factor) {
  const kernels::Total io{factor, x.contiguous(context), Tensor::empty(context, {}, wide_type(x.dtype()))};
  visit_device(context, io, [&]<Device D>() { kernels::total<D>(context, io); });
  return io.y;
}

void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const kernels::TotalVjp io{std::any_cast<double>(node.attributes), node.grad(),
                             Tensor::empty(context, node.inputs[0]->shape, node.inputs[0]->dtype)};
  visit_device(context, io, [&]<Device D>() { kernels::total_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
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

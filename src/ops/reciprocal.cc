#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/reciprocal_kernels.h"

namespace fovea {
namespace {

// saved: 1 / x
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& y = node.saved[0];
  const kernels::ReciprocalVjp io{node.grad().contiguous(context), y, Tensor::empty(context, y.shape(), y.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::reciprocal_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
}

constexpr Op kReciprocal{"reciprocal", backward};

}  // namespace

Var reciprocal(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  const kernels::Reciprocal io{x.value().contiguous(context), Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::reciprocal<D>(context, io); });
  return tape.record(kReciprocal, {x}, io.y, {io.y});
}

}  // namespace fovea

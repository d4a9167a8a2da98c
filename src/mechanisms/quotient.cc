#include "mechanisms/quotient.h"

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "mechanisms/quotient_kernels.h"

namespace fovea {
namespace {

void divide_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const kernels::DivideByLastVjp io{x, node.grad().contiguous(context), Tensor::empty(context, x.shape(), x.dtype()),
                                    std::any_cast<double>(node.attributes)};
  visit_device(context, io, [&]<Device D>() { kernels::divide_by_last_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
}

constexpr Op kDivide{"divide_by_last", divide_backward};

}  // namespace

Var with_ones(Tape& tape, const Var& x) {
  const Tensor ones = Tensor::empty(tape.context(), x.shape().with(-1, 1), x.dtype());
  ones.fill(1.0);
  const Var parts[] = {x, Var(ones)};
  return concat(tape, parts, -1);
}

Var divide_by_last(Tape& tape, const Var& x, double add) {
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context);
  const kernels::DivideByLast io{in, Tensor::empty(context, in.shape().with(-1, in.dim(-1) - 1), in.dtype()), add};
  visit_device(context, io, [&]<Device D>() { kernels::divide_by_last<D>(context, io); });
  return tape.record(kDivide, {x}, io.y, {in}, add);
}

}  // namespace fovea

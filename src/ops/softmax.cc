#include "ops/softmax_cpu.h"

#include "fovea/ops.h"
#include "ops/work.h"

namespace fovea {
namespace {

void backward(Tape& tape, Node& node, bool log) {
  const Context& context = tape.context();
  const Tensor& y = node.saved[0];  // (rows, width)
  const Tensor g = node.grad().contiguous(context).reshape(y.shape());
  const Tensor dx = Tensor::empty(context, y.shape(), y.dtype());
  cpu::softmax_backward(context, {log, g, y, dx});
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kSoftmax{"softmax", [](Tape& tape, Node& node) { backward(tape, node, false); }};
constexpr Op kLogSoftmax{"log_softmax", [](Tape& tape, Node& node) { backward(tape, node, true); }};

Var forward(Tape& tape, const Var& x, bool log) {
  const Context& context = tape.context();
  if (x.value().rank() == 0) fail(ErrorCode::shape, "softmax over the last axis of a scalar");
  const Rows rows(context, x.value());
  const Tensor in = rows.tensor.reshape({rows.count, rows.width}), y = Tensor::empty(context, in.shape(), in.dtype());
  cpu::softmax(context, {log, in, y});
  return tape.record(log ? kLogSoftmax : kSoftmax, {x}, y.reshape(x.shape()), {y});
}

}  // namespace

Var softmax(Tape& tape, const Var& x) { return forward(tape, x, false); }
Var log_softmax(Tape& tape, const Var& x) { return forward(tape, x, true); }

}  // namespace fovea

#include "ops/turned_features_cpu.h"

#include "ops/features.h"
#include "ops/work.h"

namespace fovea {
namespace {

// saved: x, turns.
void turn_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const Tensor dx = tape.room(node.inputs[0], x.shape(), x.dtype());
  cpu::turn_features(context, {x, node.saved[1], node.grad().contiguous(context), dx});
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kTurned{"turned_features", turn_backward};

// saved: x.
void log_sigmoid_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  cpu::log_sigmoid(context, {std::any_cast<double>(node.attributes), x, node.grad().contiguous(context), dx});
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kLogSigmoid{"log_sigmoid", log_sigmoid_backward};

}  // namespace

Var turned_features(Tape& tape, const Var& given, const Tensor& turns) {
  if (given.value().rank() != 4 || turns.shape() != Shape{given.dim(0), given.dim(1), 2} ||
      turns.dtype() != wide_type(given.dtype()))
    fail(ErrorCode::shape, "turns of shape " + turns.shape().text() + " for x of shape " + given.shape().text(), {},
         "(b, n, 2) in f32 (f64) for (b, n, heads, d)");
  const Context& context = tape.context();
  const Tensor x = given.value().stride(3) == 1 || given.dim(3) == 1 ? given.value() : given.value().clone(context);
  const Tensor dense = turns.contiguous(context);
  const Tensor y = Tensor::empty(context, x.shape().with(3, 2 * x.dim(3)), x.dtype());
  cpu::turn_features(context, {x, dense, y, {}});
  return tape.record(kTurned, {given}, y, {x, dense});
}

Var log_sigmoid(Tape& tape, const Var& given, double factor) {
  const Tensor x = given.value().contiguous(tape.context());
  const Tensor y = Tensor::empty(tape.context(), x.shape(), x.dtype());
  cpu::log_sigmoid(tape.context(), {factor, x, {}, y});
  return tape.record(kLogSigmoid, {given}, y, {x}, factor);
}

}  // namespace fovea

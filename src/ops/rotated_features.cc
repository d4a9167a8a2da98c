#include "ops/rotated_features_kernels.h"

#include "core/visit_device.h"

#include "ops/features.h"
#include "ops/work.h"

namespace fovea {
namespace {

void rotate(const Context& context, const kernels::RotatedFeatures& io) {
  visit_device(context, io, [&]<Device D>() { kernels::rotate_features<D>(context, io); });
}

void soften(const Context& context, const kernels::LogSigmoid& io) {
  visit_device(context, io, [&]<Device D>() { kernels::log_sigmoid<D>(context, io); });
}

// saved: x, rotations.
void rotate_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const Tensor dx = tape.room(node.inputs[0], x.shape(), x.dtype());
  rotate(context, {x, node.saved[1], node.grad().contiguous(context), dx});
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kRotated{"rotated_features", rotate_backward};

// saved: x.
void log_sigmoid_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  soften(context, {std::any_cast<double>(node.attributes), x, node.grad().contiguous(context), dx});
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kLogSigmoid{"log_sigmoid", log_sigmoid_backward};

}  // namespace

Var rotated_features(Tape& tape, const Var& x, const Tensor& rotations) {
  if (x.value().rank() != 4 || rotations.shape() != Shape{x.dim(0), x.dim(1), 2} ||
      rotations.dtype() != wide_type(x.dtype()))
    fail(ErrorCode::shape, "rotations of shape " + rotations.shape().text() + " for x of shape " + x.shape().text(), {},
         "(b, n, 2) in f32 (f64) for (b, n, heads, d)");
  const Context& context = tape.context();
  const Tensor in = dense_rows(context, x.value());
  const Tensor dense = rotations.contiguous(context);
  const Tensor y = Tensor::empty(context, in.shape().with(3, 2 * in.dim(3)), in.dtype());
  rotate(context, {in, dense, y, {}});
  return tape.record(kRotated, {x}, y, {in, dense});
}

Var log_sigmoid(Tape& tape, const Var& x, double factor) {
  const Tensor in = x.value().contiguous(tape.context());
  const Tensor y = Tensor::empty(tape.context(), in.shape(), in.dtype());
  soften(tape.context(), {factor, in, {}, y});
  return tape.record(kLogSigmoid, {x}, y, {in}, factor);
}

}  // namespace fovea

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/softmax_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

void backward(Tape& tape, Node& node, bool log) {
  const Context& context = tape.context();
  const Tensor& y = node.saved[0];  // (rows, width)
  const Tensor g = node.grad().contiguous(context).reshape(y.shape());
  const Tensor dx = Tensor::empty(context, y.shape(), y.dtype());
  const kernels::SoftmaxVjp io{log, g, y, dx};
  visit_device(context, io, [&]<Device D>() { kernels::softmax_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

// saved: x (rows, width) and the sums (rows).
void log_sum_exp_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &x = node.saved[0], &y = node.saved[1], dx = Tensor::empty(context, x.shape(), x.dtype());
  const kernels::LogSumExpVjp io{node.grad().contiguous(context), x, y, dx};
  visit_device(context, io, [&]<Device D>() { kernels::log_sum_exp_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kSoftmax{"softmax", [](Tape& tape, Node& node) { backward(tape, node, false); }};
constexpr Op kLogSoftmax{"log_softmax", [](Tape& tape, Node& node) { backward(tape, node, true); }};
constexpr Op kLogSumExp{"log_sum_exp", log_sum_exp_backward};

Var forward(Tape& tape, const Var& x, bool log) {
  const Context& context = tape.context();
  if (x.value().rank() == 0) fail(ErrorCode::shape, "softmax over the last axis of a scalar");
  const Rows rows(context, x.value());
  const Tensor in = rows.tensor.reshape({rows.count, rows.width}), y = Tensor::empty(context, in.shape(), in.dtype());
  const kernels::Softmax io{log, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::softmax<D>(context, io); });
  return tape.record(log ? kLogSoftmax : kSoftmax, {x}, y.reshape(x.shape()), {y});
}

}  // namespace

Var softmax(Tape& tape, const Var& x, int axis) {
  if (axis == -1 || axis == x.value().rank() - 1) return forward(tape, x, false);
  return transpose(tape, forward(tape, transpose(tape, x, axis, -1), false), axis, -1);
}
Var log_softmax(Tape& tape, const Var& x) { return forward(tape, x, true); }

Var log_sum_exp(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  if (x.value().rank() == 0) fail(ErrorCode::shape, "log_sum_exp over the last axis of a scalar");
  const std::span<const std::int64_t> dims = x.shape().dims();
  const Shape shape(dims.first(dims.size() - 1));
  const Tensor in = x.value().contiguous(context).reshape({shape.numel(), x.dim(-1)});
  const Tensor y = Tensor::empty(context, shape, wide_type(x.dtype()));
  const kernels::LogSumExp io{in, y};
  visit_device(context, io, [&]<Device D>() { kernels::log_sum_exp<D>(context, io); });
  return tape.record(kLogSumExp, {x}, y, {in, y});
}

}  // namespace fovea

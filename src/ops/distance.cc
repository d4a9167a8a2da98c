#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/distance_kernels.h"
#include "ops/elementwise_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

using kernels::Distance;

// saved: x and the target. The gradient of the target is that of x, turned around.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &x = node.saved[0], &target = node.saved[1];
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  const kernels::DistanceVjp io{std::any_cast<Distance>(node.attributes), x, target, node.grad(), dx};
  visit_device(context, io, [&]<Device D>() { kernels::distance_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx);
  if (!node.wants(1)) return;
  const Tensor d_target = Tensor::empty(context, x.shape(), x.dtype());
  const kernels::ScaleTensors turned{-1.0, dx, d_target};
  visit_device(context, turned, [&]<Device D>() { kernels::scale<D>(context, turned); });
  tape.accumulate(node.inputs[1], d_target);
}

constexpr Op kMse{"mse", backward};
constexpr Op kMae{"mae", backward};

Var mean_distance(Tape& tape, Distance kind, const Var& x, const Var& target) {
  const Op& op = kind == Distance::squared ? kMse : kMae;
  if (x.shape() != target.shape() || wide_type(x.dtype()) != wide_type(target.dtype()))
    fail(ErrorCode::shape,
         std::string(op.name) + " of " + std::string(name_of(x.dtype())) + x.shape().text() + " and a target of " +
             std::string(name_of(target.dtype())) + target.shape().text(),
         "target", "the same shape");
  if (x.value().numel() == 0) fail(ErrorCode::shape, std::string(op.name) + " of nothing: shape " + x.shape().text());
  const Context& context = tape.context();
  const DType target_type = target.dtype() == x.dtype() ? x.dtype() : wide_type(x.dtype());
  const Tensor in = x.value().contiguous(context), wanted = target.value().to(context, target_type).contiguous(context);
  const Tensor loss = Tensor::empty(context, {}, wide_type(x.dtype()));
  const kernels::DistanceTensors io{kind, in, wanted, loss};
  visit_device(context, io, [&]<Device D>() { kernels::distance<D>(context, io); });
  return tape.record(op, {x, target}, loss, {in, wanted}, kind);
}

}  // namespace

Var mse(Tape& tape, const Var& x, const Var& target) { return mean_distance(tape, Distance::squared, x, target); }

Var mae(Tape& tape, const Var& x, const Var& target) { return mean_distance(tape, Distance::absolute, x, target); }

}  // namespace fovea

#include "ops/distance_cpu.h"

#include "fovea/ops.h"
#include "ops/elementwise_cpu.h"
#include "ops/work.h"

namespace fovea {
namespace {

// saved: x and the target. The gradient of the target is that of x, turned around.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &x = node.saved[0], &target = node.saved[1];
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  const double scale = node.grad().item() / static_cast<double>(x.numel());
  cpu::distance_backward(context, {std::any_cast<cpu::Distance>(node.attributes), x, target}, scale, dx);
  tape.accumulate(node.inputs[0], dx);
  if (!node.wants(1)) return;
  const Tensor d_target = Tensor::empty(context, x.shape(), x.dtype());
  cpu::scale(context, {-1.0, dx, d_target});
  tape.accumulate(node.inputs[1], d_target);
}

constexpr Op kMse{"mse", backward};
constexpr Op kMae{"mae", backward};

Var mean_distance(Tape& tape, cpu::Distance kind, const Var& x, const Var& target) {
  const Op& op = kind == cpu::Distance::squared ? kMse : kMae;
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
  loss.fill(cpu::distance(context, {kind, in, wanted}) / static_cast<double>(in.numel()));
  return tape.record(op, {x, target}, loss, {in, wanted}, kind);
}

}  // namespace

Var mse(Tape& tape, const Var& x, const Var& target) { return mean_distance(tape, cpu::Distance::squared, x, target); }

Var mae(Tape& tape, const Var& x, const Var& target) { return mean_distance(tape, cpu::Distance::absolute, x, target); }

}  // namespace fovea

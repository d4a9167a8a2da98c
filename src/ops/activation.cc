#include "core/visit_device.h"
#include "ops/activation_kernels.h"
#include "ops/activation_policy.h"

namespace fovea {
namespace {

void activate_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor g = node.grad().contiguous(context);
  const Tensor dx = Tensor::empty(context, g.shape(), g.dtype());
  const kernels::ActivateVjp io{std::any_cast<Activation>(node.attributes), g, node.saved[0], dx};
  visit_device(context, io, [&]<Device D>() { kernels::activate_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx);
}

struct Gate {
  Activation activation;
  Dropout keep;
};

void glu_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];  // (rows, 2h)
  const Tensor g = node.grad().contiguous(context).reshape({x.dim(0), x.dim(1) / 2});
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  const auto& [activation, keep] = std::any_cast<const Gate&>(node.attributes);
  const kernels::GluVjp io{activation, keep, g, x, dx};
  visit_device(context, io, [&]<Device D>() { kernels::glu_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], dx.reshape(node.inputs[0]->shape));
}

constexpr Op kActivate{"activate", activate_backward};
constexpr Op kGlu{"glu", glu_backward};

}  // namespace

Var activate(Tape& tape, const Var& x, Activation activation) {
  if (activation == Activation::identity) return x;
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context);
  const Tensor y = Tensor::empty(context, in.shape(), in.dtype());
  const kernels::Apply io{activation, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::activate<D>(context, io); });
  return tape.record(kActivate, {x}, y, {slope_from_output(activation) ? y : in}, activation);
}

Var glu(Tape& tape, const Var& x, Activation activation, double dropout_p) {
  const Context& context = tape.context();
  if (x.value().rank() == 0 || x.dim(-1) % 2 != 0)
    fail(ErrorCode::shape, "glu splits the last axis in two halves; got shape " + x.shape().text());
  const std::int64_t half = x.dim(-1) / 2, rows = half == 0 ? 0 : x.value().numel() / (2 * half);
  const Tensor in = x.value().contiguous(context).reshape({rows, 2 * half});
  const Tensor y = Tensor::empty(context, {rows, half}, in.dtype());
  const Dropout keep = next_dropout(tape, dropout_p);
  const kernels::Glu io{activation, keep, in, y};
  visit_device(context, io, [&]<Device D>() { kernels::glu<D>(context, io); });
  return tape.record(kGlu, {x}, y.reshape(x.shape().with(-1, half)), {in}, Gate{activation, keep});
}

}  // namespace fovea

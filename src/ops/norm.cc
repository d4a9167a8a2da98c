#include "core/visit_device.h"
#include "ops/affine.h"
#include "ops/norm_kernels.h"
#include "ops/parameter_sums.h"

namespace fovea {
namespace {

struct NormAttributes {
  NormKind kind;
  Dropout keep;
};

void check_norm(const Var& x, const Norm& norm) {
  if (x.value().rank() == 0 || x.dim(-1) == 0)
    fail(ErrorCode::shape, "norm over the last axis of shape " + x.shape().text());
  check_affine(x.dim(-1), norm.gain, norm.bias);
  if (!(norm.eps >= 0.0)) fail(ErrorCode::usage, "eps must not be negative", "norm.eps");
  if (norm.kind == NormKind::l2 && norm.eps == 0.0)
    fail(ErrorCode::usage, "a row of zeros has no direction: the l2 norm needs an eps above 0", "norm.eps", "1e-12");
}

Tensor as_rows(const Context& context, const Tensor& t) { return t.contiguous(context).reshape({-1, t.dim(-1)}); }

// Runs the forward loop; branch may be undefined, and then sum is x.
kernels::NormForward run(Tape& tape, const Var& x, const Var& branch, const Norm& norm, const Dropout& keep) {
  const Context& context = tape.context();
  kernels::NormForward io;
  io.kind = norm.kind;
  io.eps = norm.eps;
  io.keep = keep;
  io.x = io.sum = as_rows(context, x.value());
  if (branch.defined()) {
    io.branch = as_rows(context, branch.value());
    io.sum = Tensor::empty(context, io.x.shape(), io.x.dtype());
  }
  io.y = Tensor::empty(context, io.x.shape(), io.x.dtype());
  io.gain = wide_parameter(context, norm.gain, x.value(), 1.0);
  io.bias = wide_parameter(context, norm.bias, x.value(), 0.0);
  io.stats = Tensor::empty(context, {io.x.dim(0), 2}, wide_type(x.dtype()));
  visit_device(context, io, [&]<Device D>() { kernels::norm_forward<D>(context, io); });
  return io;
}

// saved: sum, stats, gain. Fills dx and, for an active dropout, dbranch; gives gain and bias their gradients.
kernels::NormBackward vjp(Tape& tape, Node& node, const Tensor& g, const Tensor& g_sum, std::size_t gain_input) {
  const Context& context = tape.context();
  const auto& attributes = std::any_cast<const NormAttributes&>(node.attributes);
  const Tensor& sum = node.saved[0];
  const auto fresh = [&] { return Tensor::empty(context, sum.shape(), sum.dtype()); };
  const auto sums = [&](std::size_t input) {
    return sums_for(tape, node.inputs[input], sum.dim(1), wide_type(sum.dtype()));
  };
  const kernels::NormBackward io{
      .kind = attributes.kind,
      .keep = attributes.keep,
      .sum = sum,
      .stats = node.saved[1],
      .gain = node.saved[2],
      .g = g.defined() ? as_rows(context, g) : Tensor::zeros(context, sum.shape(), sum.dtype()),
      .g_sum = g_sum.defined() ? as_rows(context, g_sum) : Tensor(),
      .dx = fresh(),
      .dbranch = attributes.keep.active() ? fresh() : Tensor(),
      .d_gain = sums(gain_input),
      .d_bias = sums(gain_input + 1)};
  visit_device(context, io, [&]<Device D>() { kernels::norm_backward<D>(context, io); });
  give_sums(tape, node.inputs[gain_input], io.d_gain);
  give_sums(tape, node.inputs[gain_input + 1], io.d_bias);
  return io;
}

void normalize_backward(Tape& tape, Node& node) {
  const Shape shape = node.outputs[0]->shape;
  const kernels::NormBackward io = vjp(tape, node, node.grad(), {}, 1);
  tape.accumulate(node.inputs[0], io.dx.reshape(shape));
}

// inputs: x, branch, gain, bias; outputs: sum, normed.
void add_norm_backward(Tape& tape, Node& node) {
  const Shape shape = node.outputs[0]->shape;
  const kernels::NormBackward io = vjp(tape, node, node.grad(1), node.grad(0), 2);
  tape.accumulate(node.inputs[1], (io.dbranch.defined() ? io.dbranch : io.dx).reshape(shape));
  tape.accumulate(node.inputs[0], io.dx.reshape(shape));
}

constexpr Op kNormalize{"normalize", normalize_backward};
constexpr Op kAddNorm{"add_norm", add_norm_backward};

}  // namespace

Var normalize(Tape& tape, const Var& x, const Norm& norm) {
  check_norm(x, norm);
  const kernels::NormForward io = run(tape, x, {}, norm, {});
  return tape.record(kNormalize, {x, norm.gain, norm.bias}, io.y.reshape(x.shape()), {io.sum, io.stats, io.gain},
                     NormAttributes{norm.kind, {}});
}

Var l2_normalize(Tape& tape, const Var& x, double eps) { return normalize(tape, x, {NormKind::l2, eps, {}, {}}); }

AddNorm add_norm(Tape& tape, const Var& x, const Var& branch, double dropout_p, const Norm& norm) {
  check_norm(x, norm);
  if (branch.shape() != x.shape() || branch.dtype() != x.dtype())
    fail(ErrorCode::shape, "add_norm of " + std::string(name_of(x.dtype())) + x.shape().text() + " and a branch of " +
                               std::string(name_of(branch.dtype())) + branch.shape().text());
  const Dropout keep = next_dropout(tape, dropout_p);
  const kernels::NormForward io = run(tape, x, branch, norm, keep);
  const Var inputs[] = {x, branch, norm.gain, norm.bias};
  const std::vector<Var> outputs = tape.record(kAddNorm, inputs, {io.sum.reshape(x.shape()), io.y.reshape(x.shape())},
                                               {io.sum, io.stats, io.gain}, NormAttributes{norm.kind, keep});
  return {outputs[0], outputs[1]};
}

}  // namespace fovea

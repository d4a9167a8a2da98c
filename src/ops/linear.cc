#include "ops/linear.h"

#include "gemm/gemm.h"
#include "gemm/narrowed.h"
#include "gemm/packed.h"
#include "gemm/weight_gradient_kernels.h"
#include "ops/activation_kernels.h"
#include "ops/activation_policy.h"
#include "ops/column_sum.h"
#include "ops/parameter_sums.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Linear {
  Activation activation;
  bool bias;
};

// dZ = g act'(saved); the sums of its rows where they are wanted.
Tensor vjp(const Context& context, const kernels::ActivateVjp& io, bool wants_sums) {
  return visit_device(context, io, [&]<Device D>() {
    if (wants_sums) return kernels::activate_backward_and_sum<D>(context, io);
    kernels::activate_backward<D>(context, io);
    return Tensor();
  });
}

// dW = x^T dz, or added to what is there. True: db, where it is wanted, has the sums of the rows of dz.
bool multiply_weight(const Context& context, const kernels::WeightGradient& io) {
  const Tensor dw = visit_device(context, io, [&]<Device D>() { return kernels::weight_gradient<D>(context, io); });
  if (!dw.defined())
    gemm::multiply(context, io.x.transpose(0, 1), io.dz, io.dw, {.bias = {}, .relu = false, .accumulate = io.adds});
  return dw.defined() && io.db.defined();
}

// dW of a product x W, into the parameter's own buffer where that has the type sums are made in.
bool accumulate_weight(Tape& tape, const std::shared_ptr<Slot>& slot, kernels::WeightGradient io) {
  if (slot->leaf || slot->dtype == wide_type(slot->dtype)) {
    const Tape::Target to = tape.target(slot);
    io.dw = to.grad;
    io.adds = !to.fresh;
    return multiply_weight(tape.context(), io);
  }
  io.dw = Tensor::empty(tape.context(), slot->shape, wide_type(slot->dtype));
  const bool summed = multiply_weight(tape.context(), io);
  tape.accumulate(slot, io.dw);
  return summed;
}

// saved: x (rows, in), W, and for an activation what its slope needs.
void linear_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& attributes = std::any_cast<const Linear&>(node.attributes);
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const bool wants_bias = attributes.bias && node.wants(2), activated = attributes.activation != Activation::identity;
  Tensor dz = node.grad().contiguous(context).reshape({x.dim(0), weight.dim(1)}), db;
  if (activated) {
    const Tensor g = dz;
    dz = Tensor::empty(context, g.shape(), g.dtype());
    db = vjp(context, {attributes.activation, g, node.saved[2], dz}, wants_bias);
  } else if (wants_bias) {
    db = sums_for(tape, node.inputs[2], weight.dim(1), wide_type(dz.dtype()));
  }
  const Tensor open = activated ? Tensor() : db;  // to be summed yet
  const bool summed = node.wants(1) && accumulate_weight(tape, node.inputs[1], {x, dz, {}, false, open});
  if (open.defined() && !summed) open.copy_from(column_sums(context, dz));
  if (wants_bias) give_sums(tape, node.inputs[2], db);
  if (node.wants(0))
    tape.accumulate(node.inputs[0], gemm::multiply(context, dz, weight.transpose(0, 1)).reshape(node.inputs[0]->shape));
}

constexpr Op kLinear{"linear", linear_backward};

}  // namespace

void check_linear(const Var& x, const Var& weight, const Var& bias) {
  if (weight.value().rank() != 2 || x.value().rank() < 1 || x.dim(-1) != weight.dim(0))
    fail(ErrorCode::shape,
         "linear: input of shape " + x.shape().text() + " and weight of shape " + weight.shape().text(), {},
         "(..., in) and (in, out)");
  if (bias.defined() && bias.shape() != Shape{weight.dim(1)})
    fail(ErrorCode::shape,
         "linear: bias of shape " + bias.shape().text() + " for weight of shape " + weight.shape().text(), {}, "(out)");
}

namespace {

Tensor wide_bias(const Context& context, const Var& bias, DType dtype) {
  return bias.defined() ? bias.value().to(context, wide_type(dtype)).contiguous(context) : Tensor();
}

// x W + b, and W as it was read.
struct Product {
  Tensor z, weight;
};
Product product(const Context& context, const Tensor& x, const Var& weight, const Var& bias, bool relu) {
  const auto narrow = [&](const Var& v) {
    return v.defined() ? gemm::NarrowedWeights::find(context, v.value(), x.dtype()) : Tensor();
  };
  const Tensor found = narrow(weight), added = narrow(bias), read = found.defined() ? found : weight.value();
  const Tensor plus = added.defined() ? added : wide_bias(context, bias, x.dtype());
  return {gemm::multiply(context, x, read, {.bias = plus, .relu = relu}), read};
}

// x W + b by packed weights; undefined where there are none for this product.
Tensor packed_product(Tape& tape, const Tensor& x, const Tensor& weight, const Var& bias) {
  const gemm::PackedWeights* weights = tape.packed();
  if (weights == nullptr || tape.recording() || x.dtype() == DType::f64) return {};
  const Context& context = tape.context();
  const gemm::PackedWeight* packed = weights->find(context, weight);
  if (packed == nullptr) return {};
  const Tensor y = Tensor::empty(context, {x.dim(0), weight.dim(1)});
  packed->multiply(context, x.to(context, DType::f32).contiguous(context), wide_bias(context, bias, DType::f32), y);
  return y.to(context, x.dtype());
}

}  // namespace

Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias, Activation activation) {
  check_linear(x, weight, bias);
  const Context& context = tape.context();
  const std::int64_t in = weight.dim(0), out = weight.dim(1);
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.value().rank(); ++i) rows *= x.dim(i);
  const Tensor flat = x.value().rank() == 2 ? x.value() : x.value().contiguous(context).reshape({rows, in});
  Product made{packed_product(tape, flat, weight.value(), bias), weight.value()};
  const bool fused = !made.z.defined() && activation == Activation::relu;
  if (!made.z.defined()) made = product(context, flat, weight, bias, fused);
  const Tensor& z = made.z;
  Tensor y = z;
  if (activation != Activation::identity && !fused) {
    // In place when nobody will ask for z again.
    const bool keep = !slope_from_output(activation) && tape.wants_grad({x, weight, bias});
    if (keep) y = Tensor::empty(context, z.shape(), z.dtype());
    const kernels::Apply io{activation, z, y};
    visit_device(context, io, [&]<Device D>() { kernels::activate<D>(context, io); });
  }
  std::vector<Tensor> saved{flat, made.weight};
  if (activation != Activation::identity) saved.push_back(slope_from_output(activation) ? y : z);
  return tape.record(kLinear, {x, weight, bias}, y.reshape(x.shape().with(-1, out)), std::move(saved),
                     Linear{activation, bias.defined()});
}

}  // namespace fovea

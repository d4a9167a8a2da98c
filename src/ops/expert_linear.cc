#include <algorithm>

#include "core/visit_device.h"
#include "ops/activation_policy.h"
#include "ops/expert_linear_kernels.h"
#include "ops/linear.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct ExpertAttributes {
  Activation activation;
  std::size_t experts;
};

void check_experts(const Var& x, const Tensor& begin, const ExpertLinear& layer) {
  const std::size_t experts = layer.weights.size();
  if (experts == 0 || x.value().rank() != 2 || begin.shape() != Shape{std::ssize(layer.weights) + 1} ||
      (!layer.biases.empty() && layer.biases.size() != experts))
    fail(ErrorCode::shape,
         "rows " + x.shape().text() + " for " + std::to_string(experts) + " experts that begin at " +
             begin.shape().text(),
         {}, "(m, in), and one number more than there are experts");
  for (std::size_t e = 0; e < experts; ++e) {
    check_linear(x, layer.weights[e], layer.biases.empty() ? Var() : layer.biases[e]);
    if (layer.weights[e].shape() != layer.weights[0].shape())
      fail(ErrorCode::shape, "an expert of shape " + layer.weights[e].shape().text(),
           "weights[" + std::to_string(e) + "]", "that of the first, " + layer.weights[0].shape().text());
  }
}

// Where the gradient of a weight is made: its own buffer if that has the type of sums.
kernels::ExpertGradient new_gradient(Tape& tape, const std::shared_ptr<Slot>& slot) {
  if (slot == nullptr) return {};
  if (!slot->leaf && slot->dtype != wide_type(slot->dtype))
    return {Tensor::empty(tape.context(), slot->shape, wide_type(slot->dtype)), true};
  const Tape::Target target = tape.target(slot);
  return {target.grad, target.fresh};
}

// Inputs: x, weights, biases. saved: x, begin, what the slope needs (or nothing), weights.
void expert_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto [activation, experts] = std::any_cast<const ExpertAttributes&>(node.attributes);
  const Tensor &x = node.saved[0], g = node.grad().contiguous(context);
  kernels::ExpertVjps io{.activation = activation,
                         .g = g,
                         .saved = node.saved[2],
                         .x = x,
                         .begin = node.saved[1],
                         .weights = {node.saved.begin() + 3, node.saved.end()},
                         .dz = activation == Activation::identity ? g : Tensor::empty(context, g.shape(), g.dtype()),
                         .dx = node.wants(0) ? Tensor::empty(context, x.shape(), x.dtype()) : Tensor(),
                         .d_weights = {},
                         .d_biases = {}};
  for (std::size_t e = 0; e < experts; ++e) io.d_weights.push_back(new_gradient(tape, node.inputs[1 + e]));
  const std::span biases = std::span(node.inputs).subspan(1 + experts);
  if (std::any_of(biases.begin(), biases.end(), [](const auto& slot) { return slot != nullptr; }))
    io.d_biases = Tensor::empty(context, {static_cast<std::int64_t>(experts), g.dim(1)}, wide_type(g.dtype()));
  visit_device(context, io, [&]<Device D>() { kernels::expert_linear_backward<D>(context, io); });
  for (std::size_t e = 0; e < experts; ++e) {
    const std::shared_ptr<Slot>& weight = node.inputs[1 + e];
    if (weight != nullptr && !weight->leaf && weight->dtype != wide_type(weight->dtype))
      tape.accumulate(weight, io.d_weights[e].grad);
    if (!biases.empty() && biases[e] != nullptr)
      tape.accumulate(biases[e], io.d_biases.select(0, static_cast<std::int64_t>(e)));
  }
  if (node.wants(0)) tape.accumulate(node.inputs[0], io.dx);
}

constexpr Op kExpertLinear{"expert_linear", expert_backward};

}  // namespace

Var expert_linear(Tape& tape, const Var& x, const Tensor& begin, const ExpertLinear& layer) {
  check_experts(x, begin, layer);
  const Context& context = tape.context();
  std::vector<Var> inputs = {x};
  inputs.insert(inputs.end(), layer.weights.begin(), layer.weights.end());
  inputs.insert(inputs.end(), layer.biases.begin(), layer.biases.end());
  const Activation activation = layer.activation;
  const bool plain = activation == Activation::identity, from_output = slope_from_output(activation);
  kernels::ExpertProducts io{activation, x.value().contiguous(context), begin, {}, {}, {}, {}};
  for (const Var& weight : layer.weights) io.weights.push_back(weight.value());
  for (const Var& bias : layer.biases)
    io.biases.push_back(bias.value().to(context, wide_type(x.dtype())).contiguous(context));
  io.z = Tensor::empty(context, {x.dim(0), io.weights[0].dim(1)}, x.dtype());
  io.y = plain || from_output || !tape.wants_grad(inputs) ? io.z : Tensor::empty(context, io.z.shape(), x.dtype());
  visit_device(context, io, [&]<Device D>() { kernels::expert_linear<D>(context, io); });
  std::vector<Tensor> saved = {io.x, begin, plain ? Tensor() : from_output ? io.y : io.z};
  saved.insert(saved.end(), io.weights.begin(), io.weights.end());
  return tape.record(kExpertLinear, inputs, {io.y}, std::move(saved),
                     ExpertAttributes{activation, layer.weights.size()})[0];
}

}  // namespace fovea

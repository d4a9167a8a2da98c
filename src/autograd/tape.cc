#include <cmath>

#include "autograd/add_into.h"
#include "autograd/watch.h"
#include "core/wide.h"
#include "fovea/autograd.h"

namespace fovea {

Var Var::leaf(Tensor value) {
  auto slot = std::make_shared<Slot>();
  slot->shape = value.shape();
  slot->dtype = value.dtype();
  slot->leaf = true;
  return Var(std::move(value), std::move(slot));
}

const Tensor& Var::grad() const {
  if (slot_ == nullptr) fail(ErrorCode::usage, "this value is a constant: it has no gradient");
  return slot_->grad;
}

Tape::Tape(Context& context, TapeOptions options) : context_(&context), options_(options), stream_(options.stream) {}

bool Tape::wants_grad(std::span<const Var> inputs) const {
  if (!options_.record) return false;
  for (const Var& v : inputs)
    if (v.needs_grad()) return true;
  return false;
}

std::vector<Var> Tape::record(const Op& op, std::span<const Var> inputs, std::vector<Tensor> outputs,
                              std::vector<Tensor> saved, std::any attributes) {
  if (options_.watch) watch_values(op, outputs);
  std::vector<Var> results;
  results.reserve(outputs.size());
  if (!wants_grad(inputs)) {
    for (Tensor& t : outputs) results.emplace_back(std::move(t));
    return results;
  }
  Node node;
  node.op = &op;
  for (const Var& v : inputs) node.inputs.push_back(v.slot());
  for (Tensor& t : outputs) {
    auto slot = std::make_shared<Slot>();
    slot->shape = t.shape();
    slot->dtype = t.dtype();
    node.outputs.push_back(slot);
    results.emplace_back(std::move(t), std::move(slot));
  }
  node.saved = std::move(saved);
  node.attributes = std::move(attributes);
  nodes_.push_back(std::move(node));
  return results;
}

Var Tape::record(const Op& op, std::initializer_list<Var> inputs, Tensor output, std::vector<Tensor> saved,
                 std::any attributes) {
  std::vector<Tensor> outputs{std::move(output)};
  return record(op, std::span<const Var>(inputs.begin(), inputs.size()), std::move(outputs), std::move(saved),
                std::move(attributes))
      .front();
}

Tape::Target Tape::target(const std::shared_ptr<Slot>& slot) {
  const bool fresh = !slot->grad.defined();
  if (fresh) {
    slot->grad = Tensor::empty(*context_, slot->shape, slot->leaf ? wide_type(slot->dtype) : slot->dtype,
                               slot->leaf ? Lifetime::persistent : Lifetime::step);
  } else if (!slot->leaf && slot->grad.is_shared()) {
    slot->grad = slot->grad.clone(*context_);  // taken over from an operation that gave it to several inputs
  }
  return {slot->grad, fresh};
}

Tensor Tape::room(const std::shared_ptr<Slot>& slot, const Shape& shape, DType dtype) const {
  if (slot == nullptr || slot->split == nullptr || slot->grad.defined() || dtype != slot->dtype)
    return Tensor::empty(*context_, shape, dtype);
  SplitGrad& split = *slot->split;
  if (!split.whole.defined()) split.whole = Tensor::empty(*context_, split.shape, dtype);
  return split.whole.slice(slot->axis, slot->begin, slot->end);
}

void Tape::accumulate(const std::shared_ptr<Slot>& slot, Tensor g) {
  if (slot == nullptr) return;
  if (g.shape() != slot->shape)
    fail(ErrorCode::internal, "gradient of shape " + g.shape().text() + " for a value of shape " + slot->shape.text());
  if (!slot->leaf && !slot->grad.defined() && g.dtype() == slot->dtype) {
    slot->grad = std::move(g);
    return;
  }
  const Target to = target(slot);
  if (to.fresh)
    to.grad.copy_from(g);
  else
    add_into(*context_, to.grad, g);
}

void Tape::backward(const Var& output, Tensor seed) {
  if (!seed.defined()) {
    if (output.value().numel() != 1)
      fail(ErrorCode::shape,
           "backward needs a scalar or a gradient to start from; the output has shape " + output.shape().text());
    seed = Tensor::empty(*context_, output.shape(), output.dtype());
    seed.fill(1.0);
  }
  backward(std::span(&output, 1), std::span(&seed, 1));
}

void Tape::backward(std::span<const Var> outputs, std::span<const Tensor> seeds) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].needs_grad()) fail(ErrorCode::usage, "backward from a value that no parameter leads to");
    if (seeds[i].defined()) accumulate(outputs[i].slot(), seeds[i].contiguous(*context_));
  }
  play();
}

void Tape::play() {
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    bool reached = false;
    for (const auto& slot : node.outputs) reached = reached || slot->grad.defined();
    if (reached) node.op->backward(*this, node);
    if (reached && options_.watch) watch_gradients(node);
    for (const auto& slot : node.outputs) slot->grad = Tensor();  // nobody reads it any more
  }
}

std::size_t Tape::saved_bytes() const {
  std::size_t bytes = 0;
  for (const Node& node : nodes_)
    for (const Tensor& t : node.saved) bytes += t.bytes();
  return bytes;
}

std::string Tape::text() const {
  std::string out;
  for (const Node& node : nodes_) {
    out += node.op->name;
    for (const auto& slot : node.outputs) out += " " + slot->shape.text();
    out += " saved";
    for (const Tensor& t : node.saved) out += " " + t.shape().text();
    out += "\n";
  }
  return out;
}

}  // namespace fovea

#include <exception>

#include "autograd/add_into.h"
#include "autograd/leaf_uses.h"
#include "autograd/new_slot.h"
#include "autograd/place_tree.h"
#include "core/wide.h"
#include "fovea/autograd.h"

namespace fovea {

Var Var::leaf(Tensor value) {
  auto slot = new_slot(value);
  slot->leaf = true;
  return Var(std::move(value), std::move(slot));
}

const Tensor& Var::grad() const {
  if (slot_ == nullptr) fail(ErrorCode::usage, "this value is a constant: it has no gradient");
  return slot_->grad;
}

Tape::Tape(Context& context, TapeOptions options)
    : context_(&context), options_(options), stream_(options.stream), places_(std::make_shared<PlaceTree>()) {
  if (options_.observer != nullptr) options_.observer->on_begin(*this);
}

Tape::Tape(const Tape& outer, TapeOptions options)
    : context_(outer.context_),
      options_(options),
      stream_(options.stream),
      places_(outer.places_),
      base_(outer.place_),
      place_(outer.place_),
      part_(true) {
  options_.observer = outer.options_.observer;
}

Tape::Stay::Stay(Tape& tape, std::string_view name)
    : tape_(&tape), before_(tape.place_), errors_(std::uncaught_exceptions()) {
  tape.place_ = tape.places_->below(before_, name);
  tape.raised_ = 0;
}

// An error that passes is told of by the innermost place.
Tape::Stay::~Stay() {
  if (std::uncaught_exceptions() > errors_ && tape_->raised_ == 0) tape_->raised_ = tape_->place_;
  tape_->place_ = before_;
}

std::string Tape::path(PlaceId place) const { return places_->path(place, 0); }

Error Tape::located(const Error& error) {
  const PlaceId raised = std::exchange(raised_, 0);
  const std::string path = places_->path(raised != 0 ? raised : place_, base_);
  return path.empty() ? error : error.inside(path);
}

bool Tape::wants_grad(std::span<const Var> inputs) const {
  if (!options_.record) return false;
  for (const Var& v : inputs)
    if (v.needs_grad()) return true;
  return false;
}

std::vector<Var> Tape::record(const Op& op, std::span<const Var> inputs, std::vector<Tensor> outputs,
                              std::vector<Tensor> saved, std::any attributes) {
  if (options_.observer != nullptr && !op.composite) options_.observer->on_values(*this, op, outputs);
  if (part_ && !options_.record)
    for (const Var& v : inputs)
      if (v.needs_grad()) used_.emplace_back(Tensor(), v.slot());
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
    results.push_back(wanted(std::move(t)));
    node.outputs.push_back(results.back().slot());
  }
  node.saved = std::move(saved);
  node.attributes = std::move(attributes);
  node.place = place_;
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
  const PlaceId before = place_;
  try {
    play(outputs);
  } catch (const Error& error) {
    if (raised_ == 0) raised_ = place_;
    place_ = before;
    if (before != base_) throw;  // at() names it
    throw located(error);
  }
  place_ = before;
}

void Tape::play(std::span<const Var> outputs) {
  TapeObserver* const observer = options_.observer;
  const bool counts = observer != nullptr && !part_;  // a part cannot know who else uses its leaves
  const auto complete = [&](const std::shared_ptr<Slot>& leaf) { observer->on_complete(*this, leaf); };
  LeafUses uses;
  if (counts) {
    for (const Var& output : outputs) uses.add(std::span(&output.slot(), 1));
    for (const Node& node : nodes_) uses.add(node.inputs);
    for (const Var& output : outputs) uses.pass(std::span(&output.slot(), 1), complete);
  }
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    place_ = node.place;
    bool reached = false;
    for (const auto& slot : node.outputs) reached = reached || slot->grad.defined();
    if (reached) node.op->backward(*this, node);
    if (reached && observer != nullptr && !node.op->composite) observer->on_gradients(*this, node);
    for (const auto& slot : node.outputs) slot->grad = Tensor();  // nobody reads it any more
    if (counts) uses.pass(node.inputs, complete);
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
    if (node.place != 0) out += " at " + path(node.place);
    out += "\n";
  }
  return out;
}

}  // namespace fovea

#include "nn/scope.h"

#include <algorithm>

#include "parallel/cut.h"

namespace fovea::nn {

Scope Scope::operator/(std::string_view name) const {
  Scope inner = *this;
  if (!inner.prefix_.empty()) inner.prefix_ += '.';
  inner.prefix_ += name;
  return inner;
}

Scope Scope::as_root() const {
  Scope root = *this;
  root.root_ = prefix_;
  return root;
}

Scope Scope::shared_by(const dist::Group& ranks) const {
  Scope shared = *this;
  shared.ranks_ = ranks;
  return shared;
}

Scope Scope::at_stage(const Stage& stage) const {
  Scope part = *this;
  part.stage_ = stage;
  return part;
}

Scope Scope::placed_in(LayerWeights* weights) const {
  Scope placed = *this;
  placed.layer_weights_ = weights;
  return placed;
}

Tensor Scope::weight(const std::string& full, const Shape& shape, Init init, const WeightCut& cut) const {
  if (left_ != nullptr && shape.numel() > *left_)
    fail(ErrorCode::bad_input, "more parameters than were stored: " + full + " is " + shape.text(), {},
         "model.safetensors and config.json of the same model");
  if (left_ != nullptr) *left_ -= shape.numel();
  const Tensor whole = make_weight(*context_, full, shape, dtype_, init);
  if (const Tensor room = layer_weights_ ? layer_weights_->room(full) : Tensor(); room.defined()) {
    room.copy_from(whole);
    return room;
  }
  if (!cut.cuts() || ranks_.size() == 1) return whole;
  return divided::part_of(*context_, whole, cut, ranks_);
}

bool is_part_of(std::string_view name, std::string_view part) {
  return name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '.');
}

bool Scope::is_frozen(std::string_view full) const {
  if (frozen_ == nullptr || full.ends_with(kLoraIn) || full.ends_with(kLoraOut)) return false;
  return std::any_of(frozen_->begin(), frozen_->end(), [&](const std::string& part) { return is_part_of(full, part); });
}

Var Scope::add(std::string_view name, const Shape& shape, Init init, bool decay, const WeightCut& cut) const {
  const std::string full = (*this / name).prefix_;
  if (is_frozen(full)) return add_drawn(name, shape, init, cut);
  parameters_->push_back(
      {full, Var::leaf(weight(full, shape, init, cut)), decay, ranks_.size() > 1 ? cut : WeightCut()});
  return parameters_->back().var;
}

Var Scope::add_drawn(std::string_view name, const Shape& shape, Init init, const WeightCut& cut) const {
  const std::string full = (*this / name).prefix_;
  parameters_->push_back({full, Var(weight(full, shape, init, cut)), false, ranks_.size() > 1 ? cut : WeightCut()});
  return parameters_->back().var;
}

Var Scope::add_shared(std::string_view name, const Shape& shape, Init init, bool trained, const WeightCut& cut) const {
  Scope top = *this;
  top.prefix_ = root_;
  top = top / "shared";
  const std::string full = (top / name).prefix_;
  for (const Parameter& parameter : *parameters_)
    if (parameter.name == full) {
      if (divided::whole_shape(parameter.var.shape(), parameter.cut) != shape)
        fail(ErrorCode::usage, full + " is " + parameter.var.shape().text() + ", a layer wants " + shape.text(), {},
             "layers that share a weight have the same settings");
      if (parameter.cut.cuts() != (cut.cuts() && ranks_.size() > 1))
        fail(ErrorCode::unsupported, full + " belongs to layers whose heads ranks divide, and to others",
             "support matrix: shared weights x tensor", "mechanisms of one kind in all layers");
      return parameter.var;
    }
  return trained ? top.add(name, shape, init, false, cut) : top.add_drawn(name, shape, init, cut);
}

}  // namespace fovea::nn

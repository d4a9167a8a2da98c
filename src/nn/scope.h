#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dist/group.h"
#include "fovea/init.h"
#include "fovea/model.h"
#include "nn/layer_weights.h"
#include "nn/stage.h"

namespace fovea::nn {

// The two products of an adapter (LoRA), beside the weight of the layer that has it.
inline constexpr const char *kLoraIn = "lora_in", *kLoraOut = "lora_out";

// Is `name` the part, or something in it? "layers.1" holds "layers.1.attention.qkv.weight", not "layers.10...".
bool is_part_of(std::string_view name, std::string_view part);

// A place in the tree of names that layers are built at. Adding a parameter here is the only way to make one, so every
// layer's names, shapes and initial values stand in its constructor, once.
class Scope {
 public:
  Scope(Context& context, DType dtype, std::vector<Parameter>& parameters)
      : context_(&context), dtype_(dtype), parameters_(&parameters) {}
  // All parameters together have `left` numbers at most; those below a name of `frozen` are not trained, but for
  // adapters (kLora...).
  Scope(Context& context, DType dtype, std::vector<Parameter>& parameters, std::int64_t& left,
        const std::vector<std::string>& frozen)
      : context_(&context), dtype_(dtype), parameters_(&parameters), left_(&left), frozen_(&frozen) {}

  Scope operator/(std::string_view name) const;  // one level down
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }
  Scope as_root() const;  // here, but what is shared below is shared below here only
  Context& context() const { return *context_; }

  // Who shares the weights that are made here: of those with a cut each rank has its part, drawn as a part of the
  // whole.
  const dist::Group& ranks() const { return ranks_; }
  Scope shared_by(const dist::Group& ranks) const;
  Scope unshared() const { return shared_by({}); }

  // Which layers are made here.
  const Stage& stage() const { return stage_; }
  Scope at_stage(const Stage& stage) const;

  // Where each rank keeps shares of the weights of layers; null: it has them whole.
  LayerWeights* layer_weights() const { return layer_weights_; }
  Scope placed_in(LayerWeights* weights) const;

  // `shape` is that of all ranks together.
  Var add(std::string_view name, const Shape& shape, Init init, bool decay = false, const WeightCut& cut = {}) const;
  // The same for what is drawn once and never trained: it is saved with the rest, but has no gradient.
  Var add_drawn(std::string_view name, const Shape& shape, Init init, const WeightCut& cut = {}) const;
  // A parameter of all below the root, "<root>.shared.<name>": made by the first who asks, the same for all others.
  Var add_shared(std::string_view name, const Shape& shape, Init init, bool trained, const WeightCut& cut = {}) const;

 private:
  Tensor weight(const std::string& full, const Shape& shape, Init init, const WeightCut& cut) const;
  bool is_frozen(std::string_view full) const;

  Context* context_;
  DType dtype_;
  std::vector<Parameter>* parameters_;
  std::int64_t* left_ = nullptr;
  const std::vector<std::string>* frozen_ = nullptr;
  std::string prefix_, root_;
  dist::Group ranks_;
  Stage stage_;
  LayerWeights* layer_weights_ = nullptr;
};

// Runs f, which builds or checks something; an error from inside gets `place` put before its path: "attention" ->
// "layers[1].attention". What runs on a tape has Tape::at() for it.
template <class F>
decltype(auto) within(std::string_view place, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw e.inside(std::string(place));
  }
}

}  // namespace fovea::nn

#include "nn/layer_weights.h"

#include <charconv>

namespace fovea::nn {
namespace {

struct Border {
  LayerWeights* weights;
  std::int64_t layer;
  bool enters;
};

void border_backward(Tape& tape, Node& node) {
  const auto& border = std::any_cast<const Border&>(node.attributes);
  border.enters ? border.weights->close(border.layer) : border.weights->open(border.layer);
  tape.accumulate(node.inputs[0], node.grad());
}

constexpr Op kBorder{"layer border", border_backward};

}  // namespace

std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  std::int64_t layer = -1;
  if (name.starts_with(kLayers)) std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

Var enter_layer(Tape& tape, const Var& x, LayerWeights& weights, std::int64_t layer) {
  weights.open(layer);
  return tape.record(kBorder, {x}, x.value(), {}, Border{&weights, layer, true});
}

Var leave_layer(Tape& tape, const Var& x, LayerWeights& weights, std::int64_t layer) {
  weights.close(layer);
  return tape.record(kBorder, {x}, x.value(), {}, Border{&weights, layer, false});
}

}  // namespace fovea::nn

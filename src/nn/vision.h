#pragma once

#include "nn/embedding.h"
#include "nn/stack.h"

namespace fovea::nn {

// Pictures (b, height, width, channels) -> (b, patches, patch * patch * channels): squares in reading order, each with
// its pixels in reading order.
Tensor cut_patches(const Context& context, const Tensor& pictures, std::int64_t patch);

// Patches -> a product, a token of its own in front where `front`, positions, a stack.
class VisionStack {
 public:
  VisionStack(const Scope& scope, const ModelConfig& config, const StackSpec& spec, bool front);

  // (b, patches (+ 1), width), and its layout
  Source operator()(Tape& tape, const Tensor& pictures) const;

 private:
  ImageConfig image_;
  EmbeddingSpec spec_;
  Linear patches_;
  Var front_;  // (1, width)
  PositionTable positions_;
  Stack stack_;
};

}  // namespace fovea::nn

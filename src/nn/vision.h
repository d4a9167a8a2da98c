#pragma once

#include "nn/embedding.h"
#include "nn/stack.h"

namespace fovea::nn {

// Patches -> a product, a token of its own in front where `front`, positions, a stack.
class VisionStack {
 public:
  VisionStack(const Scope& scope, const ModelConfig& config, const StackSpec& spec, bool front);

  // (b, patches (+ 1), width), and its layout; this rank's rows, where it shares them
  Source operator()(Tape& tape, const Tensor& pictures, const RowSharers& sharers) const;

 private:
  ImageConfig image_;
  EmbeddingSpec spec_;
  Linear patches_;
  Var front_;  // (1, width)
  PositionTable positions_;
  Stack stack_;
};

}  // namespace fovea::nn

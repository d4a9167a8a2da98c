#pragma once

#include "fovea/attention.h"
#include "nn/layers.h"

namespace fovea::nn {

// How the rows of a (b, n, width) tensor divide into sequences, and where each row stands in its own.
struct Layout {
  Sequences rows;
  Tensor positions;  // i32 (b, n); 0 in padding
};

// Multi-head self-attention: one product makes q, k and v, the mechanism reads them as strided views.
class AttentionLayer {
 public:
  AttentionLayer(const Scope& scope, const ModelConfig& config, const std::string& mechanism);

  // x (b, n, width) -> (b, n, width)
  Var operator()(Tape& tape, const Var& x, const Layout& layout) const;

 private:
  AttentionOptions options(const Layout& layout) const;

  Mechanism mechanism_;
  std::int64_t heads_;
  double dropout_;  // 0 for mechanisms without weights
  bool rotary_;
  Linear qkv_, out_;
};

// qkv (b, n, 3 heads, d) -> q, k, v (b, n, heads, d), views. Their gradients meet in one buffer.
struct Split {
  Var q, k, v;
};
Split split_qkv(Tape& tape, const Var& qkv);

}  // namespace fovea::nn

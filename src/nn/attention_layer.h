#pragma once

#include <optional>

#include "fovea/attention.h"
#include "nn/layers.h"

namespace fovea::nn {

// How the rows of a (b, n, width) tensor divide into sequences, and where each row stands in its own.
struct Layout {
  Sequences rows;
  Tensor positions;  // i32 (b, n); 0 in padding
};

// Multi-head self-attention. Usually one product makes q, k and v, and the mechanism reads them as strided views; a
// mechanism may ask for other projections, a gate, and weights of its own.
class AttentionLayer {
 public:
  AttentionLayer(const Scope& scope, const ModelConfig& config, std::size_t layer);

  // x (b, n, width) -> (b, n, width)
  Var operator()(Tape& tape, const Var& x, const Layout& layout) const;

 private:
  struct Sizes {
    std::int64_t heads, d_k, d_v;
  };
  static Sizes sizes_of(const Mechanism& mechanism, const ModelConfig& config);
  void make_projections(const Scope& scope, const ModelConfig& config);
  void make_weights(const Scope& scope, const ModelConfig& config);
  AttentionOptions options(Tape& tape, const Var& x, const Layout& layout) const;

  Mechanism mechanism_;
  Sizes sizes_;
  double dropout_;  // 0 for mechanisms without weights
  Positions positions_;
  bool causal_;
  std::int64_t layer_, layers_;
  std::optional<Linear> qkv_;        // all three, or ...
  std::optional<Linear> q_, k_, v_;  // ... one by one; without k_, k is q; without q_, neither is read
  std::optional<Linear> gate_, out_;
  std::vector<Var> weights_;
  Var distances_;  // (buckets, heads), the table of t5 positions
};

// qkv (b, n, 3 heads, d) -> q, k, v (b, n, heads, d), views. Their gradients meet in one buffer.
struct Split {
  Var q, k, v;
};
Split split_qkv(Tape& tape, const Var& qkv);

}  // namespace fovea::nn

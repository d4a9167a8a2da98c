#pragma once

#include <memory>
#include <optional>

#include "nn/attention_layer.h"

namespace fovea::nn {

// What runs between sub-layers. The last branch stays unadded until the next norm, which adds and normalises in one
// pass.
struct Stream {
  Var residual, branch;  // (b, n, width); the branch may be undefined
};

// One attention and one feed-forward sub-layer, each with its residual connection and norm.
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, const ModelConfig& config, std::size_t index);

  Stream operator()(Tape& tape, Stream stream, const Layout& layout) const;

 private:
  template <class Sublayer>
  void around(Tape& tape, Stream& stream, const Norm& norm, Sublayer&& sublayer) const;

  std::string place_;  // "layers[1]", for errors
  NormPlacement placement_;
  double dropout_;
  Norm attention_norm_, feed_forward_norm_;
  AttentionLayer attention_;
  FeedForwardLayer feed_forward_;
};

// The stack, with the final norm of pre-norm models.
class Encoder {
 public:
  Encoder(const Scope& scope, const ModelConfig& config);

  // x (b, n, width) -> (b, n, width)
  Var operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout) const;

 private:
  bool checkpointing_;
  double dropout_;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> final_norm_;
};

}  // namespace fovea::nn

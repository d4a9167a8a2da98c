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

// Attention, in decoders cross-attention, and a feed-forward layer, each with its residual connection and norm.
class Block {
 public:
  Block(const Scope& scope, const StackSpec& spec, std::size_t index);

  Stream operator()(Tape& tape, Stream stream, const Layout& layout, const Source& source) const;

 private:
  template <class Sublayer>
  void around(Tape& tape, Stream& stream, const Norm& norm, Sublayer&& sublayer) const;

  std::string place_;  // "layers[1]", for errors
  NormPlacement placement_;
  double dropout_;
  Norm attention_norm_, cross_norm_, feed_forward_norm_;
  AttentionLayer attention_;
  std::optional<AttentionLayer> cross_;
  FeedForwardLayer feed_forward_;
};

// Blocks one after another, with the final norm of pre-norm models.
class Stack {
 public:
  Stack(const Scope& scope, const StackSpec& spec);

  // x (b, n, width) -> (b, n, width); a stack with cross-attention needs a source.
  Var operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout,
                 const Source& source = {}) const;
  std::size_t size() const { return blocks_.size(); }

 private:
  bool checkpointing_;
  double dropout_;
  std::vector<Block> blocks_;
  std::optional<Norm> final_norm_;
};

}  // namespace fovea::nn

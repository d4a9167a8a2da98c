#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "nn/attention_layer.h"
#include "nn/experts.h"
#include "nn/norm_layer.h"

namespace fovea::nn {

// What runs between sub-layers. The last branch stays unadded until the next norm, which adds and normalises in one
// pass.
struct Stream {
  Var residual, branch;  // (b, n, width); the branch may be undefined
  Var penalty;           // a scalar that layers add to the loss, or undefined
};

// Attention, in decoders cross-attention, and a feed-forward layer, each with its residual connection and norm.
class Block {
 public:
  Block(const Scope& scope, const StackSpec& spec, std::size_t index);

  Stream operator()(Tape& tape, Stream stream, const Layout& layout, const Source& source) const;

 private:
  template <class Sublayer>
  void around(Tape& tape, Stream& stream, const NormLayer& norm, const Layout& layout, Sublayer&& sublayer) const;
  Var cross(Tape& tape, const Var& x, const Layout& layout, const Source& source) const;
  Var feed_forward(Tape& tape, Stream& stream, const Var& x, const Layout& layout) const;
  // The feed-forward layer with all that is around it in one operation; false: there is none.
  bool feed_forward_at_once(Tape& tape, Stream& stream) const;

  std::string place_;  // "layers[1]"
  NormPlacement placement_;
  double dropout_;
  NormLayer attention_norm_, feed_forward_norm_;
  std::optional<NormLayer> cross_norm_;
  AttentionLayer attention_;
  std::optional<AttentionLayer> cross_;
  Var gate_;                                      // (1), of the cross-attention; undefined: none
  std::optional<FeedForwardLayer> feed_forward_;  // one for all tokens, or ...
  std::optional<ExpertLayer> experts_;            // ... one of many for each
};

// Blocks one after another, with the final norm of pre-norm models. Of those that ranks have in stages the scope's.
class Stack {
 public:
  Stack(const Scope& scope, const StackSpec& spec);

  // x (b, n, width) -> (b, n, width); a stack with cross-attention needs a source.
  Var operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout,
                 const Source& source = {}) const;
  // The same with something between the blocks that may leave other rows, and fewer. It gets the index of the block
  // before it.
  using Between = std::function<Source(Tape& tape, const Source& x, std::size_t block)>;
  Source run(Tape& tape, Source x, const Source& source, const Between& between) const;
  // One chunk of a stack that ranks have in stages.
  Var chunk(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout, std::int64_t chunk) const;
  std::size_t size() const { return blocks_.size(); }

 private:
  Stream block(Tape& tape, std::size_t i, Stream stream, const std::shared_ptr<const Layout>& layout,
               const Source& source) const;
  Stream open_block(Tape& tape, std::size_t i, Stream stream, const std::shared_ptr<const Layout>& layout,
                    const Source& source) const;
  Var close(Tape& tape, const Stream& stream, const Layout& layout) const;  // after the last block

  bool checkpointing_;
  double dropout_;
  Stage stage_;
  LayerWeights* weights_;                     // null: they are whole
  std::vector<std::optional<Block>> blocks_;  // none where another rank has it
  std::optional<NormLayer> final_norm_;
};

}  // namespace fovea::nn

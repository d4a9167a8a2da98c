#pragma once

#include <optional>

#include "nn/divided.h"
#include "nn/layers.h"

namespace fovea::nn {

enum class Role : std::uint8_t { self, cross };

// x (b, n, all heads, d) as views of so many heads each, whose gradients meet in one buffer.
std::vector<Var> split_heads(Tape& tape, const Var& x, std::initializer_list<std::int64_t> heads);

// Multi-head attention. Self-attention usually makes q, k and v in one product, and the mechanism reads them as strided
// views; a mechanism may ask for other projections, a gate, and weights of its own. Cross-attention makes k and v of
// another stack's output.
class AttentionLayer {
 public:
  AttentionLayer(const Scope& scope, const StackSpec& spec, std::size_t layer, Role role = Role::self);

  // x (b, n, width) -> (b, n, width)
  Var operator()(Tape& tape, const Var& x, const Layout& layout, const Source& source = {}) const;

 private:
  struct Sizes {
    std::int64_t heads, kv_heads, d_k, d_v;

    LayerSizes of_layer(const StackSpec& spec) const;
  };
  static Sizes sizes_of(const Mechanism& mechanism, const StackSpec& spec);
  Scope share(const Scope& scope) const;
  void make_projections(const Scope& scope, const StackSpec& spec);
  void make_weights(const Scope& scope, const StackSpec& spec);
  Qkv project(Tape& tape, const Var& x, const Var& from) const;
  AttentionOptions options(Tape& tape, const Var& x, std::int64_t longest) const;
  Var mix(Tape& tape, const Var& x, const Layout& layout) const;
  Var mix_source(Tape& tape, const Var& x, const Layout& layout, const Source& source) const;
  std::vector<DecodeState*> states(const Layout& layout, DecodeState LayerPast::*which) const;
  Var step(Tape& tape, const Var& x, const Layout& layout) const;
  Var step_source(Tape& tape, const Var& x, const Layout& layout, const Source& source) const;

  Mechanism mechanism_;
  Role role_;
  Sizes sizes_;        // of all ranks
  dist::Group ranks_;  // who has the other heads
  Sizes here_;         // of this rank
  double dropout_;     // 0 for mechanisms without weights
  Positions positions_;
  Rotary rotary_;
  Buckets buckets_;
  std::optional<double> scale_;
  bool causal_;
  std::int64_t layer_, layers_;
  std::optional<Linear> qkv_;        // all three, or for cross-attention k and v, or ...
  std::optional<Linear> q_, k_, v_;  // ... one by one; without k_, k is q; without q_, neither is read
  std::optional<Linear> gate_, out_;
  std::vector<Var> weights_;
  Var distances_;  // (buckets, heads), the table of t5 positions
};

}  // namespace fovea::nn

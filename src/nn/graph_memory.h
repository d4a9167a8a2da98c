#pragma once

#include <optional>

#include "nn/layers.h"

namespace fovea::nn {

// Which channels read which, in both directions: two matrices (patches, channels, channels) whose rows sum to 1.
struct ChannelGraph {
  Var there, back;
};

// [x, A x, A' x] W + b over the channels of patches.
class GraphConv {
 public:
  GraphConv(const Scope& scope, std::int64_t in, std::int64_t out) : out_(scope, 3 * in, out) {}

  Var operator()(Tape& tape, const Var& x, const ChannelGraph& graph) const;  // (t, channels, b, in) -> (.., out)

 private:
  Linear out_;
};

// Patches learn from those of other channels along a graph that is made of a small memory and of what each channel
// takes from it; then every patch reads the memory. The memory and the graphs are parameters.
class GraphMemory {
 public:
  GraphMemory(const Scope& scope, const SeriesConfig& series);

  // (b, channels, patches, patch) -> (b, channels, patches, patch + memory width)
  Var operator()(Tape& tape, const Var& patches) const;

 private:
  ChannelGraph graph(Tape& tape) const;
  Var walk(Tape& tape, const Var& x, const ChannelGraph& graph) const;
  Var read(Tape& tape, const Var& h) const;

  Var memory_;           // (rows, width)
  Var sources_, sinks_;  // (patches, channels, rows): what a channel takes from the memory, at either end of an edge
  Linear queries_;
  std::optional<GraphConv> plain_;              // all patches at once, or ...
  std::optional<GraphConv> gates_, candidate_;  // ... one after another
};

}  // namespace fovea::nn

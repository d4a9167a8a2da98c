#pragma once

#include "nn/layers.h"
#include "nn/layout.h"

namespace fovea::nn {

// A switch: every token goes to the one feed-forward layer its router prefers. What comes to a full one passes by.
class ExpertLayer {
 public:
  ExpertLayer(const Scope& scope, const StackConfig& config);

  struct Result {
    Var output;   // (b, n, width)
    Var penalty;  // a scalar, while training: how uneven the tokens are spread
  };
  Result operator()(Tape& tape, const Var& x, const Layout& layout) const;

 private:
  Result over_all(Tape& tape, const Var& x, const Sequences& sequences) const;

  double capacity_, balance_;
  dist::Group ranks_;  // all of which have all experts
  Linear router_;
  std::vector<FeedForwardLayer> experts_;
};

}  // namespace fovea::nn

#pragma once

#include "nn/scope.h"
#include "ops/standardize.h"

namespace fovea::nn {

// Every series by itself gets mean 0 and deviation 1, then a learned gain and bias of its channel; what is foretold
// goes the same way back. Mean and deviation are constants to backward.
class ReversibleNorm {
 public:
  ReversibleNorm(const Scope& scope, std::int64_t channels);

  // Of values (b, n, channels), in the dtype of the parameters. The variance has 1e-5 added.
  ChannelMoments measure(const Context& context, const Tensor& values) const;
  Var normalize(Tape& tape, const Tensor& values, const ChannelMoments& moments) const;
  Var restore(Tape& tape, const Var& normed, const ChannelMoments& moments) const;  // (b, any, channels)

 private:
  Var gain_, bias_;  // (channels)
};

}  // namespace fovea::nn

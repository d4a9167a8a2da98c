#pragma once

#include "nn/scope.h"

namespace fovea::nn {

// act(x W + b).
class Linear {
 public:
  struct Options {
    Activation activation = Activation::identity;
    std::int64_t parts = 1;  // projections side by side in one product; each is initialised as if it stood alone
  };
  Linear(const Scope& scope, std::int64_t in, std::int64_t out) : Linear(scope, in, out, Options{}) {}
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options);

  Var operator()(Tape& tape, const Var& x) const { return linear(tape, x, weight_, bias_, activation_); }

 private:
  Var weight_, bias_;  // (in, out), (out)
  Activation activation_;
};

// LayerNorm or RMSNorm over the last axis, with gain (and for LayerNorm bias) unless the config leaves them out.
Norm make_norm(const Scope& scope, const ModelConfig& config);

// (act(x W1 + b1)) W2 + b2, or (act(x Wg + bg) * (x Wv + bv)) W2 + b2 with both first products as one.
class FeedForwardLayer {
 public:
  FeedForwardLayer(const Scope& scope, const ModelConfig& config);

  Var operator()(Tape& tape, const Var& x) const;

 private:
  bool gated_;
  Activation activation_;
  double dropout_;
  Linear in_, out_;
};

}  // namespace fovea::nn

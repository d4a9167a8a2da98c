#pragma once

#include "nn/divided.h"
#include "nn/layout.h"
#include "nn/scope.h"
#include "ops/feed_forward.h"

namespace fovea::nn {

// LoRA: the weight W counts as W + scale in out.
struct Adapter {
  Var in, out;  // (inputs, rank), (rank, outputs)
  double scale = 1.0;
};
Var adapted(Tape& tape, const Var& weight, const Adapter& adapter);

// How ranks that share the weights of a product divide it.
enum class Split : std::uint8_t {
  none,     // each makes all of it
  outputs,  // each makes its outputs
  inputs,   // each has its inputs; what they make of them is added up
};

// act(x W + b).
class Linear {
 public:
  struct Options {
    Activation activation = Activation::identity;
    std::int64_t fan_out = 0;  // outputs its initial values are drawn for; 0: all. Projections side by side in one
                               // product are drawn as if each stood alone
    bool bias = true;
    double deviation = 0.0;    // of normal initial values; 0: uniform, by the sizes
    bool weight_norm = false;  // the weight is direction times length
    std::int64_t lora = 0;     // rank of an adapter; 0: none
    double lora_scale = 1.0;
    Split split = Split::none;
    std::vector<std::int64_t> runs =
        {};  // outputs that are divided each for itself, one after another; none: all as one
  };
  Linear(const Scope& scope, std::int64_t in, std::int64_t out) : Linear(scope, in, out, Options{}) {}
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options);

  Var operator()(Tape& tape, const Var& x) const;
  Var weight(Tape& tape) const;  // as it enters the product
  // The weight is a parameter, and all of it is here.
  bool is_plain() const { return !length_.defined() && !adapter_.in.defined() && ranks_.size() == 1; }
  const Var& bias() const { return bias_; }
  Activation activation() const { return activation_; }

 private:
  Var weight_, length_, bias_;  // (in, out), (out), (out)
  Adapter adapter_;
  Activation activation_;
  dist::Group ranks_;  // who has the other inputs
};

// The product that ends a residual branch: where weights start normal, it starts smaller the more branches there are.
Linear::Options branch_end(const StackConfig& config);

// (act(x W1 + b1)) W2 + b2, or (act(x Wg + bg) * (x Wv + bv)) W2 + b2 with both first products as one.
class FeedForwardLayer {
 public:
  FeedForwardLayer(const Scope& scope, const StackConfig& config);

  Var operator()(Tape& tape, const Var& x, const Layout& layout) const;
  // With the sum and norm before it, as one operation; nothing where there is none, or more than its result is wanted.
  FeedForwardResult at_once(Tape& tape, const FeedForwardInput& input) const;
  // Several of one shape, each on its own rows of x, as expert_linear() has them.
  static Var each(Tape& tape, std::span<const FeedForwardLayer> layers, const Var& x, const Tensor& begin);

 private:
  Var middle(Tape& tape, const Var& hidden, const Layout& layout) const;  // between the products

  bool gated_;
  Activation activation_;
  double dropout_;
  ColumnShare columns_;
  Linear in_, out_;
};

}  // namespace fovea::nn

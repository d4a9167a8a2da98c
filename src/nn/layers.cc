#include "nn/layers.h"

#include <cmath>

namespace fovea::nn {
namespace {

Linear make_in(const Scope& scope, const StackConfig& config) {
  Linear::Options options{.fan_out = config.inner,
                          .bias = config.bias,
                          .deviation = config.init_deviation,
                          .weight_norm = config.weight_norm};
  if (config.feed_forward == FeedForward::glu) return {scope, config.width, 2 * config.inner, options};
  options.activation = config.activation;
  return {scope, config.width, config.inner, options};
}

Init init_of(std::int64_t in, std::int64_t out, const Linear::Options& options) {
  if (options.deviation > 0.0) return Init::normal(options.deviation);
  return Init::xavier(in, options.fan_out > 0 ? options.fan_out : out);
}

// The length of every column (in, out) -> (out): the product starts as if it had no norm.
void set_lengths(const Tensor& weight, const Tensor& lengths) {
  const std::vector<double> values = weight.to_vector<double>();
  const auto out = static_cast<std::size_t>(weight.dim(1));
  for (std::size_t column = 0; column < out; ++column) {
    double squares = 0.0;
    for (std::size_t i = column; i < values.size(); i += out) squares += values[i] * values[i];
    const auto place = static_cast<std::int64_t>(column);
    lengths.slice(0, place, place + 1).fill(std::sqrt(squares));
  }
}

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options)
    : weight_(scope.add("weight", {in, out}, init_of(in, out, options), true)),
      bias_(options.bias ? scope.add("bias", {out}, Init::zeros()) : Var()),
      activation_(options.activation) {
  if (!options.weight_norm) return;
  length_ = scope.add("length", {out}, Init::zeros());
  set_lengths(weight_.value(), length_.value());
}

Linear::Options branch_end(const StackConfig& config) {
  const auto branches = static_cast<double>(config.layers.size() * (config.cross.empty() ? 2 : 3));
  return {
      .bias = config.bias, .deviation = config.init_deviation / std::sqrt(branches), .weight_norm = config.weight_norm};
}

FeedForwardLayer::FeedForwardLayer(const Scope& scope, const StackConfig& config)
    : gated_(config.feed_forward == FeedForward::glu),
      activation_(config.activation),
      dropout_(config.inner_dropout),
      in_(make_in(scope / "in", config)),
      out_(scope / "out", config.inner, config.width, branch_end(config)) {}

Var FeedForwardLayer::operator()(Tape& tape, const Var& x) const {
  Var hidden = in_(tape, x);
  hidden = gated_ ? glu(tape, hidden, activation_, dropout_) : dropout(tape, hidden, dropout_);
  return out_(tape, hidden);
}

}  // namespace fovea::nn

#include "nn/layers.h"

#include <cmath>

namespace fovea::nn {
namespace {

Linear make_in(const Scope& scope, const StackConfig& config) {
  Linear::Options options{.fan_out = config.inner, .bias = config.bias, .deviation = config.init_deviation};
  if (config.feed_forward == FeedForward::glu) return {scope, config.width, 2 * config.inner, options};
  options.activation = config.activation;
  return {scope, config.width, config.inner, options};
}

Init init_of(std::int64_t in, std::int64_t out, const Linear::Options& options) {
  if (options.deviation > 0.0) return Init::normal(options.deviation);
  return Init::xavier(in, options.fan_out > 0 ? options.fan_out : out);
}

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options)
    : weight_(scope.add("weight", {in, out}, init_of(in, out, options), true)),
      bias_(options.bias ? scope.add("bias", {out}, Init::zeros()) : Var()),
      activation_(options.activation) {}

Linear::Options branch_end(const StackConfig& config) {
  const auto branches = static_cast<double>(config.layers.size() * (config.cross.empty() ? 2 : 3));
  return {.bias = config.bias, .deviation = config.init_deviation / std::sqrt(branches)};
}

Norm make_norm(const Scope& scope, const StackConfig& config) {
  Norm norm{.kind = config.norm, .eps = config.norm_eps, .gain = {}, .bias = {}};
  if (!config.norm_affine) return norm;
  norm.gain = scope.add("gain", {config.width}, Init::ones());
  if (config.norm == NormKind::layer) norm.bias = scope.add("bias", {config.width}, Init::zeros());
  return norm;
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

#include "nn/layers.h"

namespace fovea::nn {
namespace {

Linear make_in(const Scope& scope, const ModelConfig& config) {
  if (config.feed_forward == FeedForward::glu) return {scope, config.width, 2 * config.inner, {.parts = 2}};
  return {scope, config.width, config.inner, {.activation = config.activation}};
}

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options)
    : weight_(scope.add("weight", {in, out}, Init::xavier(in, out / options.parts), true)),
      bias_(scope.add("bias", {out}, Init::zeros())),
      activation_(options.activation) {}

Norm make_norm(const Scope& scope, const ModelConfig& config) {
  Norm norm{.kind = config.norm, .eps = config.norm_eps, .gain = {}, .bias = {}};
  if (!config.norm_affine) return norm;
  norm.gain = scope.add("gain", {config.width}, Init::ones());
  if (config.norm == NormKind::layer) norm.bias = scope.add("bias", {config.width}, Init::zeros());
  return norm;
}

FeedForwardLayer::FeedForwardLayer(const Scope& scope, const ModelConfig& config)
    : gated_(config.feed_forward == FeedForward::glu),
      activation_(config.activation),
      dropout_(config.inner_dropout),
      in_(make_in(scope / "in", config)),
      out_(scope / "out", config.inner, config.width) {}

Var FeedForwardLayer::operator()(Tape& tape, const Var& x) const {
  Var hidden = in_(tape, x);
  hidden = gated_ ? glu(tape, hidden, activation_, dropout_) : dropout(tape, hidden, dropout_);
  return out_(tape, hidden);
}

}  // namespace fovea::nn

#include "nn/reversible_norm.h"

#include "fovea/ops.h"

namespace fovea::nn {
namespace {

constexpr double kEps = 1e-5;

}  // namespace

ReversibleNorm::ReversibleNorm(const Scope& scope, std::int64_t channels)
    : gain_(scope.add("gain", {channels}, Init::ones())), bias_(scope.add("bias", {channels}, Init::zeros())) {}

ChannelMoments ReversibleNorm::measure(const Context& context, const Tensor& values) const {
  return channel_moments(context, values, kEps, gain_.dtype());
}

Var ReversibleNorm::normalize(Tape& tape, const Tensor& values, const ChannelMoments& moments) const {
  return add(tape, mul(tape, standardized(tape.context(), values, moments), gain_), bias_);
}

Var ReversibleNorm::restore(Tape& tape, const Var& normed, const ChannelMoments& moments) const {
  const Context& context = tape.context();
  const Var plain = mul(tape, sub(tape, normed, bias_), reciprocal(tape, gain_));
  const Var scaled = mul(tape, plain, repeated_rows(context, moments.deviation, normed.dim(1)));
  return add(tape, scaled, repeated_rows(context, moments.mean, normed.dim(1)));
}

}  // namespace fovea::nn

#include "nn/layers.h"

#include <algorithm>
#include <cmath>

#include "nn/divided.h"

namespace fovea::nn {
namespace {

Linear make_in(const Scope& scope, const StackConfig& config) {
  Linear::Options options{.fan_out = config.inner,
                          .bias = config.bias,
                          .deviation = config.init_deviation,
                          .weight_norm = config.weight_norm,
                          .lora = config.lora,
                          .lora_scale = config.lora_scale,
                          .split = Split::outputs};
  if (config.feed_forward == FeedForward::glu) {
    options.runs = {config.inner, config.inner};
    return {scope, config.width, 2 * config.inner, options};
  }
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
  std::vector<double> squares(static_cast<std::size_t>(weight.dim(1)), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) squares[i % squares.size()] += values[i] * values[i];
  for (double& square : squares) square = std::sqrt(square);
  lengths.copy_from(Tensor::wrap(squares.data(), lengths.shape(), DType::f64));
}

// How the axes of a weight (in, out) are cut.
struct Cuts {
  std::vector<std::int64_t> in = {}, out = {};

  Cuts(std::int64_t inputs, std::int64_t outputs, const Linear::Options& options) {
    if (options.split == Split::inputs) in = {inputs};
    if (options.split == Split::outputs) out = options.runs.empty() ? std::vector{outputs} : options.runs;
  }
  WeightCut of_weight() const { return in.empty() ? WeightCut{1, out} : WeightCut{0, in}; }
};

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, Options options)
    : activation_(options.activation) {
  const Cuts cuts(in, out, options);
  weight_ = scope.add("weight", {in, out}, init_of(in, out, options), true, cuts.of_weight());
  if (options.bias) bias_ = scope.add("bias", {out}, Init::zeros(), false, {0, cuts.out});
  if (options.split == Split::inputs) ranks_ = scope.ranks();
  if (options.lora > 0) {
    const std::int64_t rank = std::min(options.lora, std::min(in, out));
    adapter_ = {scope.add(kLoraIn, {in, rank}, Init::xavier(in, rank), false, {0, cuts.in}),
                scope.add(kLoraOut, {rank, out}, Init::zeros(), false, {1, cuts.out}), options.lora_scale};
  }
  if (!options.weight_norm) return;
  if (ranks_.size() > 1)
    fail(ErrorCode::unsupported, "ranks that share a weight do not know its length",
         "support matrix: weight_norm x tensor", "weight_norm=false, or a mesh without the axis tensor");
  length_ = scope.add("length", {out}, Init::zeros(), false, {0, cuts.out});
  set_lengths(weight_.value(), length_.value());
}

Var Linear::operator()(Tape& tape, const Var& x) const {
  return linear_of_shares(tape, {x, weight(tape), bias_, activation_}, ranks_);
}

Var adapted(Tape& tape, const Var& weight, const Adapter& adapter) {
  const Var product = linear(tape, adapter.in, adapter.out, Var(), Activation::identity);
  return add(tape, weight, scale(tape, product, adapter.scale));
}

Var Linear::weight(Tape& tape) const {
  const Var weight = adapter_.in.defined() ? adapted(tape, weight_, adapter_) : weight_;
  return length_.defined() ? weight_norm(tape, weight, length_) : weight;
}

Linear::Options branch_end(const StackConfig& config) {
  const auto branches = static_cast<double>(config.layers.size() * (config.cross.empty() ? 2 : 3));
  return {.bias = config.bias,
          .deviation = config.init_deviation / std::sqrt(branches),
          .weight_norm = config.weight_norm,
          .lora = config.lora,
          .lora_scale = config.lora_scale,
          .split = Split::inputs};
}

FeedForwardLayer::FeedForwardLayer(const Scope& scope, const StackConfig& config)
    : gated_(config.feed_forward == FeedForward::glu),
      activation_(config.activation),
      dropout_(config.inner_dropout),
      columns_{scope.ranks(), config.inner},
      in_(make_in(scope / "in", config)),
      out_(scope / "out", config.inner, config.width, branch_end(config)) {}

Var FeedForwardLayer::middle(Tape& tape, const Var& hidden, const Layout& layout) const {
  if (gated_) return glu(tape, hidden, activation_, dropout_, layout, columns_);
  return dropout(tape, hidden, dropout_, layout, columns_);
}

// Not in training: a part that is run again would round differently the second time.
FeedForwardResult FeedForwardLayer::at_once(Tape& tape, const FeedForwardInput& input) const {
  if (tape.recording() || tape.training() || !in_.is_plain() || !out_.is_plain()) return {};
  return fused_feed_forward(tape, input,
                            {in_.weight(tape), in_.bias(), out_.weight(tape), out_.bias(), activation_, gated_});
}

Var FeedForwardLayer::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  const FeedForwardResult result = at_once(tape, {x, {}, {}});
  return result.y.defined() ? result.y : out_(tape, middle(tape, in_(tape, x), layout));
}

Var FeedForwardLayer::each(Tape& tape, std::span<const FeedForwardLayer> layers, const Var& x, const Tensor& begin) {
  const auto product = [&](const Var& rows, Linear FeedForwardLayer::*linear) {
    ExpertLinear all;
    all.activation = (layers[0].*linear).activation();
    for (const FeedForwardLayer& layer : layers) {
      all.weights.push_back((layer.*linear).weight(tape));
      if ((layer.*linear).bias().defined()) all.biases.push_back((layer.*linear).bias());
    }
    return expert_linear(tape, rows, begin, all);
  };
  const Var hidden = product(x, &FeedForwardLayer::in_);
  return product(layers[0].middle(tape, hidden, Layout()), &FeedForwardLayer::out_);
}

}  // namespace fovea::nn

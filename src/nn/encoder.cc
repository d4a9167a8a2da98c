#include "nn/encoder.h"

namespace fovea::nn {
namespace {

// Adds the open branch to the residual and normalises. Returns what the next sub-layer reads.
AddNorm close_branch(Tape& tape, const Stream& stream, double dropout_p, const Norm& norm) {
  if (stream.branch.defined()) return add_norm(tape, stream.residual, stream.branch, dropout_p, norm);
  return {stream.residual, normalize(tape, stream.residual, norm)};
}

// One layer that backward runs again. Inputs and outputs: the residual and, where there is one, the branch.
class LayerSegment : public Segment {
 public:
  LayerSegment(const EncoderLayer& layer, std::shared_ptr<const Layout> layout)
      : layer_(&layer), layout_(std::move(layout)) {}

  static std::vector<Var> pack(const Stream& stream) {
    if (stream.branch.defined()) return {stream.residual, stream.branch};
    return {stream.residual};
  }
  static Stream unpack(std::span<const Var> vars) { return {vars[0], vars.size() > 1 ? vars[1] : Var()}; }

  std::vector<Var> run(Tape& tape, std::span<const Var> inputs) const override {
    return pack((*layer_)(tape, unpack(inputs), *layout_));
  }

 private:
  const EncoderLayer* layer_;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace

EncoderLayer::EncoderLayer(const Scope& scope, const ModelConfig& config, std::size_t index)
    : place_("layers[" + std::to_string(index) + "]"),
      placement_(config.placement),
      dropout_(config.dropout),
      attention_norm_(make_norm(scope / "attention_norm", config)),
      feed_forward_norm_(make_norm(scope / "feed_forward_norm", config)),
      attention_(within(place_ + ".attention", [&] { return AttentionLayer(scope / "attention", config, index); })),
      feed_forward_(scope / "feed_forward", config) {}

template <class Sublayer>
void EncoderLayer::around(Tape& tape, Stream& stream, const Norm& norm, Sublayer&& sublayer) const {
  if (placement_ == NormPlacement::pre) {
    const auto [sum, normed] = close_branch(tape, stream, dropout_, norm);
    stream = {sum, sublayer(normed)};
  } else {
    const Var branch = sublayer(stream.residual);
    stream = {add_norm(tape, stream.residual, branch, dropout_, norm).normed, {}};
  }
}

Stream EncoderLayer::operator()(Tape& tape, Stream stream, const Layout& layout) const {
  within(place_, [&] {
    around(tape, stream, attention_norm_,
           [&](const Var& x) { return within("attention", [&] { return attention_(tape, x, layout); }); });
    around(tape, stream, feed_forward_norm_,
           [&](const Var& x) { return within("feed_forward", [&] { return feed_forward_(tape, x); }); });
  });
  return stream;
}

Encoder::Encoder(const Scope& scope, const ModelConfig& config)
    : checkpointing_(config.checkpointing), dropout_(config.dropout) {
  layers_.reserve(config.layers.size());
  for (std::size_t i = 0; i < config.layers.size(); ++i)
    layers_.emplace_back(scope / "layers" / static_cast<std::int64_t>(i), config, i);
  if (config.placement == NormPlacement::pre) final_norm_ = make_norm(scope / "final_norm", config);
}

Var Encoder::operator()(Tape& tape, const Var& x, const std::shared_ptr<const Layout>& layout) const {
  Stream stream{x, {}};
  for (const EncoderLayer& layer : layers_) {
    if (checkpointing_ && tape.recording()) {
      const auto segment = std::make_shared<LayerSegment>(layer, layout);
      stream = LayerSegment::unpack(checkpoint(tape, segment, LayerSegment::pack(stream)));
    } else {
      stream = layer(tape, std::move(stream), *layout);
    }
  }
  return final_norm_ ? close_branch(tape, stream, dropout_, *final_norm_).normed : stream.residual;
}

}  // namespace fovea::nn

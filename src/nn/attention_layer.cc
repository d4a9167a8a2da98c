#include "nn/attention_layer.h"

#include <fmt/format.h>

#include "fovea/zones.h"

namespace fovea::nn {
namespace {

// Three slices recorded one by one would each make a zero-padded gradient of the whole; here they are made in place, or
// packed once.
void split_backward(Tape& tape, Node& node) {
  const ZoneTimer timer(tape.context().zones(), Zone::elementwise);
  const Shape& whole = node.inputs[0]->shape;  // (b, n, 3 heads, d)
  const std::int64_t heads = whole[2] / 3;
  SplitGrad& split = *node.outputs[0]->split;
  if (!split.whole.defined()) split.whole = Tensor::empty(tape.context(), whole, node.inputs[0]->dtype);
  for (int part = 0; part < 3; ++part) {
    const Tensor to = split.whole.slice(2, part * heads, (part + 1) * heads);
    const Tensor& from = node.grad(static_cast<std::size_t>(part));
    if (!from.defined())
      to.fill(0.0);
    else if (from.raw() != to.raw())
      to.copy_from(from);
  }
  tape.accumulate(node.inputs[0], std::exchange(split.whole, {}));
}

constexpr Op kSplit{"split_qkv", split_backward};

void check_mechanism(const Mechanism& mechanism, const ModelConfig& config) {
  const auto need = [&](Feature feature) {
    if (mechanism.supports(feature)) return;
    fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {} form", mechanism.name(), name_of(feature)), {},
         fmt::format("one that has it: fovea list --with {}", name_of(feature)));
  };
  need(Feature::bidirectional);
  need(Feature::packed);
  if (config.positions == Positions::rotary) need(Feature::rotary);
  if (!mechanism.supports(config.dtype))
    fail(ErrorCode::unsupported,
         fmt::format("attention \"{}\" does not run in {}", mechanism.name(), name_of(config.dtype)));
}

}  // namespace

Split split_qkv(Tape& tape, const Var& qkv) {
  const std::int64_t heads = qkv.dim(2) / 3;
  std::vector<Tensor> parts;
  for (int part = 0; part < 3; ++part) parts.push_back(qkv.value().slice(2, part * heads, (part + 1) * heads));
  const std::vector<Var> out = tape.record(kSplit, std::span(&qkv, 1), std::move(parts), {});
  if (out[0].needs_grad()) {
    const auto grad = std::make_shared<SplitGrad>(SplitGrad{qkv.shape(), {}});
    for (std::int64_t part = 0; part < 3; ++part) {
      Slot& slot = *out[static_cast<std::size_t>(part)].slot();
      slot.split = grad;
      slot.axis = 2;
      slot.begin = part * heads;
      slot.end = (part + 1) * heads;
    }
  }
  return {out[0], out[1], out[2]};
}

AttentionLayer::AttentionLayer(const Scope& scope, const ModelConfig& config, const std::string& mechanism)
    : mechanism_(Mechanism::parse(mechanism)),
      heads_(config.heads),
      dropout_(mechanism_.supports(Feature::dropout) ? config.attention_dropout : 0.0),
      rotary_(config.positions == Positions::rotary),
      qkv_(scope / "qkv", config.width, 3 * config.width, {.parts = 3}),
      out_(scope / "out", config.width, config.width) {
  check_mechanism(mechanism_, config);
}

AttentionOptions AttentionLayer::options(const Layout& layout) const {
  AttentionOptions options;
  options.queries = layout.rows;
  options.dropout_p = dropout_;
  if (rotary_) {
    options.rotary = Rotary{};
    options.positions = layout.positions;
  }
  return options;
}

Var AttentionLayer::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  const std::int64_t b = x.dim(0), n = x.dim(1), width = x.dim(2);
  const Var qkv = reshape(tape, qkv_(tape, x), {b, n, 3 * heads_, width / heads_});
  const auto [q, k, v] = split_qkv(tape, qkv);
  const Var mixed = attention(tape, q, k, v, mechanism_, options(layout)).output;
  return out_(tape, reshape(tape, mixed, {b, n, width}));
}

}  // namespace fovea::nn

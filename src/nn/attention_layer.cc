#include "nn/attention_layer.h"

#include <fmt/format.h>

#include "fovea/zones.h"
#include "mechanisms/kind.h"

namespace fovea::nn {
namespace {

constexpr double kDistanceDeviation = 0.02;

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

// Positions that change the scores themselves are mechanisms of their own: they stand in for softmax.
Mechanism positioned(const Mechanism& mechanism, Positions positions) {
  if (positions != Positions::shaw && positions != Positions::xl) return mechanism;
  const std::string_view name = positions == Positions::shaw ? "shaw" : "xl";
  if (mechanism.name() == name) return mechanism;
  if (mechanism.text() != "softmax")
    fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {} positions", mechanism.text(), name), {},
         fmt::format("\"softmax\", or \"{}\" itself", name));
  return Mechanism(name);
}

// Longest sequence of a batch.
std::int64_t longest(const Var& x, const Layout& layout) {
  std::int64_t length = 1;
  for (const Sequences::Rows& rows : layout.rows.rows(x.dim(0), x.dim(1), "rows"))
    length = std::max(length, rows.count);
  return length;
}

void check_mechanism(const Mechanism& mechanism, const ModelConfig& config) {
  const auto need = [&](Feature feature) {
    if (mechanism.supports(feature)) return;
    const std::string_view also = feature == Feature::bidirectional ? "model.causal=true, or " : "";
    fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {} form", mechanism.name(), name_of(feature)), {},
         fmt::format("{}one that has it: fovea list --with {}", also, name_of(feature)));
  };
  need(config.causal ? Feature::causal : Feature::bidirectional);
  need(Feature::packed);
  if (config.positions == Positions::rope) need(Feature::rotary);
  if (config.positions == Positions::alibi) need(Feature::alibi);
  if (config.positions == Positions::t5) need(Feature::bias);
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

AttentionLayer::Sizes AttentionLayer::sizes_of(const Mechanism& mechanism, const ModelConfig& config) {
  const LayerStyle& style = mechanism.kind().style;
  const std::int64_t heads = style.one_head ? 1 : config.heads, width = config.width / heads;
  return {heads, style.key_width > 0 ? style.key_width : width, style.value_factor * width};
}

AttentionLayer::AttentionLayer(const Scope& scope, const ModelConfig& config, std::size_t layer)
    : mechanism_(positioned(Mechanism::parse(config.layers[layer]), config.positions)),
      sizes_(sizes_of(mechanism_, config)),
      dropout_(mechanism_.supports(Feature::dropout) ? config.attention_dropout : 0.0),
      positions_(config.positions),
      causal_(config.causal),
      layer_(static_cast<std::int64_t>(layer)),
      layers_(std::ssize(config.layers)) {
  check_mechanism(mechanism_, config);
  make_projections(scope, config);
  make_weights(scope, config);
}

void AttentionLayer::make_projections(const Scope& scope, const ModelConfig& config) {
  const LayerStyle& style = mechanism_.kind().style;
  const std::int64_t keys = sizes_.heads * sizes_.d_k, values = sizes_.heads * sizes_.d_v;
  const bool plain = !style.shared_qk && !style.values_only && keys == values &&
                     style.qk_activation == Activation::identity && style.v_activation == Activation::identity;
  if (plain) {
    qkv_.emplace(scope / "qkv", config.width, 3 * keys, Linear::Options{.parts = 3});
  } else {
    if (!style.values_only)
      q_.emplace(scope / "q", config.width, keys, Linear::Options{.activation = style.qk_activation});
    if (!style.shared_qk && !style.values_only)
      k_.emplace(scope / "k", config.width, keys, Linear::Options{.activation = style.qk_activation});
    v_.emplace(scope / "v", config.width, values, Linear::Options{.activation = style.v_activation});
  }
  if (style.gate)
    gate_.emplace(scope / "gate", config.width, values, Linear::Options{.activation = style.gate_activation});
  out_.emplace(scope / "out", values, config.width);
}

void AttentionLayer::make_weights(const Scope& scope, const ModelConfig& config) {
  const LayerSizes sizes{.heads = sizes_.heads,
                         .kv_heads = sizes_.heads,
                         .d_k = sizes_.d_k,
                         .d_v = sizes_.d_v,
                         .width = config.width,
                         .max_length = config.max_length};
  for (const WeightSpec& spec : mechanism_.weights(sizes)) {
    if (spec.shared)
      weights_.push_back(scope.add_shared(spec.name, spec.shape, spec.init, spec.trained));
    else
      weights_.push_back(spec.trained ? scope.add(spec.name, spec.shape, spec.init, spec.decay)
                                      : scope.add_drawn(spec.name, spec.shape, spec.init));
  }
  if (positions_ == Positions::t5)
    distances_ = scope.add_shared("distances", {Buckets{}.count, sizes_.heads}, Init::normal(kDistanceDeviation), true);
}

AttentionOptions AttentionLayer::options(Tape& tape, const Var& x, const Layout& layout) const {
  AttentionOptions options;
  options.queries = layout.rows;
  options.causal = causal_;
  options.dropout_p = dropout_;
  options.weights = weights_;
  if (mechanism_.needs_input()) options.input = x;
  options.layer = layer_;
  options.layers = layers_;
  options.alibi = positions_ == Positions::alibi;
  if (positions_ == Positions::t5)
    options.diagonal_bias = t5_bias(tape, distances_, longest(x, layout), {.bidirectional = !causal_});
  if (positions_ == Positions::rope) {
    options.rotary = Rotary{};
    options.positions = layout.positions;
  }
  return options;
}

Var AttentionLayer::operator()(Tape& tape, const Var& x, const Layout& layout) const {
  const std::int64_t b = x.dim(0), n = x.dim(1), heads = sizes_.heads;
  const auto project = [&](const Linear& linear, std::int64_t width) {
    return reshape(tape, linear(tape, x), {b, n, heads, width});
  };
  Split in;
  if (qkv_) {
    in = split_qkv(tape, reshape(tape, (*qkv_)(tape, x), {b, n, 3 * heads, sizes_.d_k}));
  } else {
    in.v = project(*v_, sizes_.d_v);
    in.q = q_ ? project(*q_, sizes_.d_k) : Var(in.v.value());
    in.k = k_ ? project(*k_, sizes_.d_k) : in.q;
  }
  const Var mixed = attention(tape, in.q, in.k, in.v, mechanism_, options(tape, x, layout)).output;
  Var out = reshape(tape, mixed, {b, n, heads * sizes_.d_v});
  if (gate_) out = mul(tape, out, (*gate_)(tape, x));
  return (*out_)(tape, out);
}

}  // namespace fovea::nn

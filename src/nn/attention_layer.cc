#include "nn/attention_layer.h"

#include <fmt/format.h>

#include "fovea/zones.h"
#include "mechanisms/kind.h"
#include "parallel/heads.h"
#include "tensor/views.h"

namespace fovea::nn {
namespace {

constexpr double kDistanceDeviation = 0.02;

// Slices recorded one by one would each make a zero-padded gradient of the whole; here they are made in place, or
// packed once.
void split_backward(Tape& tape, Node& node) {
  const ZoneTimer timer(tape.context().zones(), Zone::elementwise);
  const Shape& whole = node.inputs[0]->shape;  // (b, n, all heads, d)
  SplitGrad& split = *node.outputs[0]->split;
  if (!split.whole.defined()) split.whole = Tensor::empty(tape.context(), whole, node.inputs[0]->dtype);
  for (std::size_t part = 0; part < node.outputs.size(); ++part) {
    const Slot& slot = *node.outputs[part];
    const Tensor to = split.whole.slice(2, slot.begin, slot.end);
    const Tensor& from = node.grad(part);
    if (!from.defined())
      to.fill(0.0);
    else if (!same_place(from, to))
      to.copy_from(from);
  }
  tape.accumulate(node.inputs[0], std::exchange(split.whole, {}));
}

constexpr Op kSplit{"split_heads", split_backward};

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

Mechanism mechanism_of(const StackSpec& spec, std::size_t layer, Role role) {
  if (role == Role::self) return positioned(Mechanism::parse(spec.layers[layer]), spec.positions);
  return Mechanism::parse(spec.cross[spec.cross.size() == 1 ? 0 : layer]);
}

// Longest sequence of a batch.
std::int64_t longest(const Var& x, const Layout& layout) {
  if (layout.division) return layout.division->longest();
  std::int64_t length = 1;
  for (const Sequences::Rows& rows : layout.rows.rows(x.dim(0), x.dim(1), "rows"))
    length = std::max(length, rows.count);
  return length;
}

void need(const Mechanism& mechanism, Feature feature) {
  if (mechanism.supports(feature)) return;
  const std::string_view also = feature == Feature::bidirectional ? "model.causal=true, or " : "";
  fail(ErrorCode::unsupported, fmt::format("attention \"{}\" has no {} form", mechanism.name(), name_of(feature)), {},
       fmt::format("{}one that has it: fovea list --with {}", also, name_of(feature)));
}

void check_mechanism(const Mechanism& mechanism, const StackSpec& spec, Role role) {
  if (role == Role::cross) {
    need(mechanism, Feature::cross);
    need(mechanism, Feature::bidirectional);
  } else {
    need(mechanism, spec.causal ? Feature::causal : Feature::bidirectional);
    if (spec.positions == Positions::rope) need(mechanism, Feature::rotary);
    if (spec.positions == Positions::alibi) need(mechanism, Feature::alibi);
    if (spec.positions == Positions::t5) need(mechanism, Feature::bias);
  }
  need(mechanism, Feature::packed);
  if (spec.key_heads() != spec.heads) {
    need(mechanism, Feature::grouped);
    if (mechanism.kind().style.shared_qk)
      fail(ErrorCode::unsupported,
           fmt::format("attention \"{}\" reads its queries as keys: it has as many heads of both", mechanism.name()),
           {}, "kv_heads=0");
  }
  if (spec.attention_scale > 0.0) need(mechanism, Feature::scale);
  if (!mechanism.supports(spec.dtype))
    fail(ErrorCode::unsupported,
         fmt::format("attention \"{}\" does not run in {}", mechanism.name(), name_of(spec.dtype)));
}

// x (b, n, heads * width) -> (b, n, heads, width)
Var in_heads(Tape& tape, const Var& x, std::int64_t width) {
  return reshape(tape, x, {x.dim(0), x.dim(1), x.dim(2) / width, width});
}

// How ranks have a weight whose shape depends on the heads: the axis that it does by, head after head.
WeightCut cut_by_heads(const Shape& all, const Shape& here) {
  WeightCut cut;
  for (int axis = 0; axis < all.rank(); ++axis) {
    if (all.dim(axis) == here.dim(axis)) continue;
    if (cut.cuts()) fail(ErrorCode::internal, "a weight of shape " + all.text() + " that heads have two axes of");
    cut = {axis, {all.dim(axis)}};
  }
  return cut;
}

// Rows [begin, begin + count) of the sequence, as a batch of 1.
Tensor rows_of(const Var& x, const Sequences::Rows& rows) {
  return x.value().slice(0, rows.batch, rows.batch + 1).slice(1, rows.begin, rows.begin + rows.count);
}

}  // namespace

std::vector<Var> split_heads(Tape& tape, const Var& x, std::initializer_list<std::int64_t> heads) {
  std::vector<Tensor> parts;
  std::vector<std::int64_t> ends = {0};
  for (const std::int64_t count : heads) {
    ends.push_back(ends.back() + count);
    parts.push_back(x.value().slice(2, ends.back() - count, ends.back()));
  }
  std::vector<Var> out = tape.record(kSplit, std::span(&x, 1), std::move(parts), {});
  if (!out[0].needs_grad()) return out;
  const auto grad = std::make_shared<SplitGrad>(SplitGrad{x.shape(), {}});
  for (std::size_t part = 0; part < out.size(); ++part) {
    Slot& slot = *out[part].slot();
    slot.split = grad;
    slot.axis = 2;
    slot.begin = ends[part];
    slot.end = ends[part + 1];
  }
  return out;
}

AttentionLayer::Sizes AttentionLayer::sizes_of(const Mechanism& mechanism, const StackSpec& spec) {
  const LayerStyle& style = mechanism.kind().style;
  if (style.one_head) {
    const std::int64_t keys = style.key_width > 0 ? style.key_width : spec.width;
    return {1, 1, keys, style.value_factor * spec.width};
  }
  const std::int64_t width = spec.head_width > 0 ? spec.head_width : spec.width / spec.heads;
  return {spec.heads, spec.key_heads(), style.key_width > 0 ? style.key_width : width, style.value_factor * width};
}

AttentionLayer::AttentionLayer(const Scope& scope, const StackSpec& spec, std::size_t layer, Role role)
    : mechanism_(mechanism_of(spec, layer, role)),
      role_(role),
      sizes_(sizes_of(mechanism_, spec)),
      dropout_(mechanism_.supports(Feature::dropout) ? spec.attention_dropout : 0.0),
      positions_(role == Role::self ? spec.positions : Positions::none),
      rotary_{.base = spec.rope_base, .halves = spec.rope_pairs == RopePairs::halves},
      buckets_{.count = spec.buckets, .max_distance = spec.bucket_distance, .bidirectional = !spec.causal},
      causal_(role == Role::self && spec.causal),
      layer_(static_cast<std::int64_t>(layer)),
      layers_(std::ssize(spec.layers)) {
  check_mechanism(mechanism_, spec, role);
  const Scope shared = share(scope);
  ranks_ = shared.ranks();
  here_ = {sizes_.heads / ranks_.size(), sizes_.kv_heads / ranks_.size(), sizes_.d_k, sizes_.d_v};
  if (spec.attention_scale > 0.0) scale_ = spec.attention_scale;
  if (spec.rope_stretch) rotary_.stretch = *spec.rope_stretch;
  make_projections(shared, spec);
  make_weights(shared, spec);
}

// Where heads know of each other, each rank has the layer whole.
Scope AttentionLayer::share(const Scope& scope) const {
  const std::int64_t ranks = scope.ranks().size();
  if (!divided::divides_heads(mechanism_)) return scope.unshared();
  if (sizes_.heads % ranks != 0 || sizes_.kv_heads % ranks != 0)
    fail(ErrorCode::unsupported,
         fmt::format("{} heads with keys and values of {} do not divide among {} ranks", sizes_.heads, sizes_.kv_heads,
                     ranks),
         "support matrix: heads x tensor", "an axis tensor that divides model.heads and model.kv_heads");
  return scope;
}

void AttentionLayer::make_projections(const Scope& scope, const StackSpec& spec) {
  const LayerStyle& style = mechanism_.kind().style;
  const std::int64_t queries = sizes_.heads * sizes_.d_k, keys = sizes_.kv_heads * sizes_.d_k;
  const std::int64_t values = sizes_.kv_heads * sizes_.d_v, out = sizes_.heads * sizes_.d_v;
  const bool self = role_ == Role::self;
  const bool plain = !style.shared_qk && !style.values_only && keys == values &&
                     style.qk_activation == Activation::identity && style.v_activation == Activation::identity;
  const std::int64_t source = !self && spec.source_width > 0 ? spec.source_width : spec.width;
  const auto add = [&](std::optional<Linear>& linear, std::string_view name, std::int64_t width, Activation activation,
                       std::vector<std::int64_t> runs = {}) {
    const bool reads_source = &linear == &qkv_ || &linear == &k_ || &linear == &v_;
    linear.emplace(scope / name, reads_source ? source : spec.width, width,
                   Linear::Options{.activation = activation,
                                   .fan_out = runs.empty() ? 0 : queries,
                                   .bias = spec.bias,
                                   .deviation = spec.init_deviation,
                                   .weight_norm = spec.weight_norm,
                                   .lora = spec.lora,
                                   .lora_scale = spec.lora_scale,
                                   .split = Split::outputs,
                                   .runs = runs});
  };
  if (plain) {
    const std::vector<std::int64_t> runs = self ? std::vector{queries, keys, values} : std::vector{keys, values};
    add(qkv_, self ? "qkv" : "kv", (self ? queries : 0) + keys + values, Activation::identity, runs);
    if (!self) add(q_, "q", queries, Activation::identity);
  } else {
    if (!style.values_only) add(q_, "q", queries, style.qk_activation);
    if (!style.shared_qk && !style.values_only) add(k_, "k", keys, style.qk_activation);
    add(v_, "v", values, style.v_activation);
  }
  if (style.gate) add(gate_, "gate", out, style.gate_activation);
  out_.emplace(scope / "out", out, spec.width, branch_end(spec));
}

LayerSizes AttentionLayer::Sizes::of_layer(const StackSpec& spec) const {
  return {
      .heads = heads, .kv_heads = kv_heads, .d_k = d_k, .d_v = d_v, .width = spec.width, .max_length = spec.max_length};
}

void AttentionLayer::make_weights(const Scope& scope, const StackSpec& spec) {
  const std::vector<WeightSpec> all = mechanism_.weights(sizes_.of_layer(spec)),
                                here = mechanism_.weights(here_.of_layer(spec));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const WeightSpec& weight = all[i];
    const WeightCut cut = cut_by_heads(weight.shape, here[i].shape);
    if (weight.shared)
      weights_.push_back(scope.add_shared(weight.name, weight.shape, weight.init, weight.trained, cut));
    else
      weights_.push_back(weight.trained ? scope.add(weight.name, weight.shape, weight.init, weight.decay, cut)
                                        : scope.add_drawn(weight.name, weight.shape, weight.init, cut));
  }
  if (positions_ == Positions::t5)
    distances_ = scope.add_shared("distances", {buckets_.count, sizes_.heads}, Init::normal(kDistanceDeviation), true,
                                  {1, {sizes_.heads}});
}

// For rows that stand among at most `longest` others.
AttentionOptions AttentionLayer::options(Tape& tape, const Var& x, std::int64_t longest) const {
  AttentionOptions options;
  options.causal = causal_;
  options.scale = scale_;
  options.dropout_p = dropout_;
  options.weights = weights_;
  if (mechanism_.needs_input()) options.input = x;
  options.layer = layer_;
  options.layers = layers_;
  options.alibi = positions_ == Positions::alibi;
  if (positions_ == Positions::t5) options.diagonal_bias = t5_bias(tape, distances_, longest, buckets_);
  if (positions_ == Positions::rope) options.rotary = rotary_;
  return options;
}

Qkv AttentionLayer::project(Tape& tape, const Var& x, const Var& from) const {
  if (qkv_ && role_ == Role::self) {
    const auto parts =
        split_heads(tape, in_heads(tape, (*qkv_)(tape, x), sizes_.d_k), {here_.heads, here_.kv_heads, here_.kv_heads});
    return {parts[0], parts[1], parts[2], ranks_};
  }
  if (qkv_) {
    const auto parts =
        split_heads(tape, in_heads(tape, (*qkv_)(tape, from), sizes_.d_k), {here_.kv_heads, here_.kv_heads});
    return {in_heads(tape, (*q_)(tape, x), sizes_.d_k), parts[0], parts[1], ranks_};
  }
  Qkv in;
  in.ranks = ranks_;
  in.v = in_heads(tape, (*v_)(tape, from), sizes_.d_v);
  in.q = q_ ? in_heads(tape, (*q_)(tape, x), sizes_.d_k)
            : Var(first_head_repeated(in.v.value(), here_.heads));  // not read
  in.k = k_ ? in_heads(tape, (*k_)(tape, from), sizes_.d_k) : q_ ? in.q : Var(in.v.value());
  return in;
}

Var AttentionLayer::mix(Tape& tape, const Var& x, const Layout& layout) const {
  const Qkv in = project(tape, x, x);
  return attend(tape, in, mechanism_, options(tape, x, positions_ == Positions::t5 ? longest(x, layout) : 0), layout);
}

Var AttentionLayer::mix_source(Tape& tape, const Var& x, const Layout& layout, const Source& source) const {
  const Qkv in = project(tape, x, source.rows);
  return attend(tape, in, mechanism_, options(tape, source.rows, 0), layout, *source.layout);
}

// What this layer remembers of each sequence.
std::vector<DecodeState*> AttentionLayer::states(const Layout& layout, DecodeState LayerPast::*which) const {
  std::vector<DecodeState*> states;
  for (Past* const past : layout.pasts) states.push_back(&(past->layers[static_cast<std::size_t>(layer_)].*which));
  return states;
}

// Every sequence follows on its own past.
Var AttentionLayer::step(Tape& tape, const Var& x, const Layout& layout) const {
  const Qkv in = project(tape, x, x);
  const std::vector<DecodeState*> pasts = states(layout, &LayerPast::self);
  std::int64_t seen = 0;
  for (const DecodeState* past : pasts) seen = std::max(seen, past->length);
  AttentionOptions call = options(tape, x, seen + longest(x, layout));
  call.queries = layout.rows;
  return attention_step(tape, in.q.value(), in.k.value(), in.v.value(), mechanism_, pasts, call);
}

// Keys and values of the source are made once, at the first step of a sequence.
Var AttentionLayer::step_source(Tape& tape, const Var& x, const Layout& layout, const Source& source) const {
  const std::vector<DecodeState*> pasts = states(layout, &LayerPast::cross);
  Var q;
  if (source.defined()) {
    const Qkv in = project(tape, x, source.rows);
    const auto from = source.layout->rows.rows(source.rows.dim(0), source.rows.dim(1), "rows");
    for (std::size_t s = 0; s < pasts.size(); ++s) {
      const auto kept = [&](const Var& y) { return rows_of(y, from[s]).clone(tape.context(), Lifetime::persistent); };
      *pasts[s] = {.keys = kept(in.k), .values = kept(in.v), .length = from[s].count, .held = from[s].count};
    }
    q = in.q;
  } else {
    q = in_heads(tape, (*q_)(tape, x), sizes_.d_k);
  }
  AttentionOptions call = options(tape, x, 0);
  call.queries = layout.rows;
  return attention_step(tape, q.value(), {}, {}, mechanism_, pasts, call);
}

Var AttentionLayer::operator()(Tape& tape, const Var& x, const Layout& layout, const Source& source) const {
  const bool stepping = !layout.pasts.empty();
  if (stepping && ranks_.size() > 1)
    fail(ErrorCode::unsupported, "a token at a time is not made of heads on several ranks",
         "support matrix: generate x tensor", "the same model on one process");
  Var mixed;
  if (role_ == Role::self)
    mixed = stepping ? step(tape, x, layout) : mix(tape, x, layout);
  else
    mixed = stepping ? step_source(tape, x, layout, source) : mix_source(tape, x, layout, source);
  Var out = reshape(tape, mixed, {x.dim(0), x.dim(1), here_.heads * here_.d_v});
  if (gate_) out = mul(tape, out, (*gate_)(tape, x));
  return (*out_)(tape, out);
}

}  // namespace fovea::nn

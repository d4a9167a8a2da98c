#include "fuzz/layer.h"

#include <algorithm>
#include <cmath>

#include "conformance/trial.h"
#include "nn/attention_layer.h"

namespace fovea::fuzz {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

StackSpec stack_of(const Spec& s, DType dtype) {
  StackSpec stack;
  stack.width = s.width;
  stack.heads = s.heads;
  stack.kv_heads = s.kv_heads;
  stack.head_width = s.d_k;
  stack.layers.assign(at(s.layers), s.mechanism);
  stack.causal = s.causal;
  stack.positions = s.alibi                ? Positions::alibi
                    : !s.rotary.empty()    ? Positions::rope
                    : !s.diagonals.empty() ? Positions::t5
                                           : Positions::none;
  stack.rope_pairs = s.rotary == "halves" ? RopePairs::halves : RopePairs::adjacent;
  stack.attention_scale = std::abs(s.scale);
  stack.attention_dropout = s.dropout;
  stack.max_length = std::max<std::int64_t>(s.n_q, 1);
  stack.dtype = dtype;
  return stack;
}

// Row-major numbers with the width of a row.
struct Rows {
  std::vector<double> values;
  std::int64_t width = 0;
};

double activated(double x, Activation activation) {
  if (activation == Activation::identity) return x;
  if (activation == Activation::silu) return x / (1.0 + std::exp(-x));
  fail(ErrorCode::internal, "an activation that the definition of layers does not have");
}

// Parameters of a layer by name.
class Parameters {
 public:
  explicit Parameters(const std::vector<Leaf>& leaves) : leaves_(leaves) {}

  bool has(const std::string& name) const { return find(name) != nullptr; }
  const std::vector<double>& at(const std::string& name) const { return find(name)->values; }
  // act(x W + b)
  Rows project(const Rows& x, const std::string& name, Activation activation = Activation::identity) const {
    const std::vector<double>&w = at(name + ".weight"), &b = at(name + ".bias");
    const std::int64_t rows = x.width == 0 ? 0 : std::ssize(x.values) / x.width, width = std::ssize(b);
    Rows y{std::vector<double>(fuzz::at(rows * width)), width};
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = b[fuzz::at(c)];
        for (std::int64_t j = 0; j < x.width; ++j)
          sum += x.values[fuzz::at(i * x.width + j)] * w[fuzz::at(j * width + c)];
        y.values[fuzz::at(i * width + c)] = activated(sum, activation);
      }
    return y;
  }

 private:
  const Leaf* find(const std::string& name) const {
    for (const Leaf& leaf : leaves_)
      if (leaf.name == name) return &leaf;
    return nullptr;
  }
  const std::vector<Leaf>& leaves_;
};

Rows columns(const Rows& x, std::int64_t begin, std::int64_t count) {
  Rows y{{}, count};
  for (std::int64_t row = 0; row < std::ssize(x.values) / std::max<std::int64_t>(x.width, 1); ++row)
    for (std::int64_t c = 0; c < count; ++c) y.values.push_back(x.values[at(row * x.width + begin + c)]);
  return y;
}

struct Projected {
  Rows q, k, v;
};

Projected project(const Case& c, const Parameters& p, const Rows& x) {
  const Spec& s = c.spec;
  const LayerStyle& style = c.mechanism.kind().style;
  if (p.has("qkv.weight")) {
    const Rows all = p.project(x, "qkv");
    const std::int64_t q = s.heads * s.d_k, k = s.kv_heads * s.d_k;
    return {columns(all, 0, q), columns(all, q, k), columns(all, q + k, k)};
  }
  Projected out;
  out.v = p.project(x, "v", style.v_activation);
  const bool reads = p.has("q.weight");
  const std::int64_t unread = s.heads * s.d_v;  // any numbers, of the right size
  out.q =
      reads ? p.project(x, "q", style.qk_activation) : Rows{std::vector<double>(at(s.batch * s.n_q * unread)), unread};
  out.k = p.has("k.weight") ? p.project(x, "k", style.qk_activation) : reads ? out.q : out.v;
  return out;
}

Var t5_diagonals(Context& context, const Spec& s, const std::vector<double>& table) {
  const Buckets buckets{.bidirectional = !s.causal};
  const std::int64_t n = std::max<std::int64_t>(s.n_q, 1);
  std::vector<double> values;
  for (std::int64_t h = 0; h < s.heads; ++h)
    for (std::int64_t offset = 1 - n; offset < n; ++offset)
      values.push_back(table[at(t5_bucket(offset, buckets) * s.heads + h)]);
  return Tensor::from<double>(context, {1, s.heads, 2 * n - 1}, values);
}

// What the layer asks of the mechanism.
conformance::Trial trial_of(Context& context, const Case& c, const Parameters& p, const Projected& in) {
  const Spec& s = c.spec;
  const LayerStyle& style = c.mechanism.kind().style;
  conformance::Trial t{.batch = s.batch,
                       .n_q = s.n_q,
                       .n_k = s.n_q,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .width = s.width,
                       .options = {},
                       .training = s.dropout > 0.0};
  if (style.one_head) t.heads = t.kv_heads = 1;
  t.d_v = in.v.width / t.kv_heads;
  t.d_k = in.q.width / t.heads;
  t.options.causal = s.causal;
  if (s.scale != 0.0) t.options.scale = std::abs(s.scale);
  t.options.dropout_p = s.dropout;
  t.options.alibi = s.alibi;
  if (!s.rotary.empty()) t.options.rotary = Rotary{.halves = s.rotary == "halves"};
  if (p.has("shared.distances")) t.options.diagonal_bias = t5_diagonals(context, s, p.at("shared.distances"));
  t.options.queries = queries_of(s);
  t.options.layer = s.index;
  t.options.layers = s.layers;
  return t;
}

}  // namespace

Layer::Layer(Context& context, const Spec& spec, DType dtype, const std::vector<Leaf>& leaves) : spec_(spec) {
  std::vector<Parameter> parameters;
  const nn::Scope scope(context, wide_type(dtype), parameters);
  layer_ = std::make_unique<nn::AttentionLayer>(scope, stack_of(spec, dtype), at(spec.index));
  const Shape shape{spec.batch, spec.n_q, spec.width};
  const Tensor x = leaves.empty() ? Tensor::zeros(context, shape, DType::f64)
                                  : Tensor::from<double>(context, shape, leaves.front().values);
  vars_.push_back(Var::leaf(x.to(context, dtype)));
  names_.emplace_back("x");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& value = parameters[i].var.value();
    if (!leaves.empty()) value.copy_from(Tensor::from<double>(context, value.shape(), leaves[i + 1].values));
    vars_.push_back(parameters[i].var);
    names_.push_back(parameters[i].name);
  }
}

Layer::~Layer() = default;

Var Layer::run(Tape& tape) const { return (*layer_)(tape, vars_.front(), {queries_of(spec_), {}, {}, {}, {}}); }

std::vector<double> define_layer(const Case& c, const std::vector<Leaf>& leaves) {
  Context context({.threads = 1, .seed = 7});
  const Parameters p(leaves);
  const Rows x{leaves.front().values, c.spec.width};
  const Projected in = project(c, p, x);
  conformance::Trial t = trial_of(context, c, p, in);
  const auto tensor = [&](const Rows& rows, std::int64_t heads) {
    return Var(Tensor::from<double>(context, {t.batch, t.n_q, heads, rows.width / heads}, rows.values));
  };
  conformance::Inputs inputs{tensor(in.q, t.heads), tensor(in.k, t.kv_heads), tensor(in.v, t.kv_heads), {}, {}};
  if (c.mechanism.needs_input())
    inputs.input = Var(Tensor::from<double>(context, {t.batch, t.n_q, t.width}, leaves.front().values));
  const LayerSizes sizes{.heads = t.heads,
                         .kv_heads = t.kv_heads,
                         .d_k = t.d_k,
                         .d_v = t.d_v,
                         .width = t.width,
                         .max_length = std::max<std::int64_t>(t.n_q, 1)};
  for (const WeightSpec& w : c.mechanism.weights(sizes))
    inputs.weights.emplace_back(Tensor::from<double>(context, w.shape, p.at(w.shared ? "shared." + w.name : w.name)));
  Rows mixed{conformance::expected(context, inputs, c.mechanism, t).o, t.heads * t.d_v};
  const LayerStyle& style = c.mechanism.kind().style;
  if (style.gate) {
    const Rows gate = p.project(x, "gate", style.gate_activation);
    for (std::size_t i = 0; i < mixed.values.size(); ++i) mixed.values[i] *= gate.values[i];
  }
  return p.project(mixed, "out").values;
}

}  // namespace fovea::fuzz

#include <algorithm>
#include <cmath>

#include "conformance/trial.h"
#include "core/wide.h"
#include "mechanisms/defined.h"
#include "reference/random.h"
#include "support/draws.h"

namespace fovea::conformance {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Var leaf(Context& context, const Shape& shape, DType dtype, Random& draws, double mean = 0.0) {
  return Var::leaf(testing::random(context, shape, draws, dtype, 1.0, mean));
}

// Rows [begin, begin + count) of batch item b of a (batch, n, heads, d) tensor.
std::vector<double> rows_of(const Tensor& x, const Sequences::Rows& rows) {
  return x.select(0, rows.batch).slice(0, rows.begin, rows.begin + rows.count).to_vector<double>();
}

// Reads a broadcast (b, h, i, j) tensor; `missing` where it is undefined.
class Broadcast {
 public:
  explicit Broadcast(const Tensor& x) : x_(x) {
    if (x.defined()) values_ = x.to_vector<double>();
  }
  double operator()(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double missing) const {
    if (!x_.defined()) return missing;
    const auto pick = [&](int axis, std::int64_t index) { return x_.dim(axis) == 1 ? 0 : index; };
    return values_[at(((pick(0, b) * x_.dim(1) + pick(1, h)) * x_.dim(2) + pick(2, i)) * x_.dim(3) + pick(3, j))];
  }

 private:
  Tensor x_;
  std::vector<double> values_;
};

void rotate_row(double* row, std::int64_t width, std::int64_t position, const Rotary& rotary) {
  const std::int64_t even = (rotary.width > 0 ? rotary.width : width) / 2 * 2;
  for (std::int64_t m = 0; m < even / 2; ++m) {
    const double angle = static_cast<double>(position) *
                         std::pow(rotary.base, -2.0 * static_cast<double>(m) / static_cast<double>(even));
    double& a = row[rotary.halves ? m : 2 * m];
    double& b = row[rotary.halves ? m + even / 2 : 2 * m + 1];
    const double x = a, y = b;
    a = x * std::cos(angle) - y * std::sin(angle);
    b = y * std::cos(angle) + x * std::sin(angle);
  }
}

// The definition's problem for sequence s.
reference::Problem problem_of(const Context& context, const Inputs& in, const Trial& s, std::size_t index,
                              const std::pair<Sequences::Rows, Sequences::Rows>& rows) {
  const auto& [q, k] = rows;
  const AttentionOptions& o = s.options;
  reference::Problem p;
  p.n_q = q.count;
  p.n_k = k.count;
  p.heads = s.heads;
  p.kv_heads = s.kv_heads;
  p.d_k = s.d_k;
  p.d_v = s.d_v;
  p.q = rows_of(in.q.value(), q);
  p.k = rows_of(in.k.value(), k);
  p.v = rows_of(in.v.value(), k);
  p.causal = o.causal;
  p.top_left = o.align == Align::top_left;
  p.scale = o.scale.value_or(0.0);
  if (o.window)
    p.pattern = Pattern::predicate("window", [w = *o.window](std::int64_t query, std::int64_t key) {
      return (w.left < 0 || key >= query - w.left) && (w.right < 0 || key <= query + w.right);
    });
  if (o.pattern) p.pattern = p.pattern & *o.pattern;
  if (o.alibi) p.slopes = reference::alibi_slopes(s.heads);
  if (o.rotary)
    p.rotate = [rotary = *o.rotary](double* row, std::int64_t w, std::int64_t pos) { rotate_row(row, w, pos, rotary); };
  if (o.bias.defined() || o.mask.defined())
    p.bias = [bias = Broadcast(o.bias.value()), mask = Broadcast(o.mask), q, k](std::int64_t h, std::int64_t i,
                                                                                std::int64_t j) {
      const std::int64_t row = q.begin + i, column = k.begin + j;
      return mask(q.batch, h, row, column, 1.0) != 0.0 ? bias(q.batch, h, row, column, 0.0) : -INFINITY;
    };
  if (o.diagonal_bias.defined())
    p.bias = [diagonals = o.diagonal_bias.value().to_vector<double>(), shape = o.diagonal_bias.shape(), batch = q.batch,
              gap = p.position(0), last = p.n_k - 1](std::int64_t h, std::int64_t i, std::int64_t j) {
      const std::int64_t row = (shape[0] == 1 ? 0 : batch) * shape[1] + (shape[1] == 1 ? 0 : h);
      return diagonals[at(row * shape[2] + (j - std::min(i + gap, last)) + (shape[2] - 1) / 2)];
    };
  if (s.training && o.dropout_p > 0.0) {
    p.drop_factor = [=, rate = o.dropout_p, seed = context.seed()](std::int64_t h, std::int64_t i, std::int64_t j) {
      constexpr std::uint64_t kFirstStream = 0;  // of a fresh tape
      return reference::dropout_factor(rate, seed, kFirstStream, {q.batch, h, q.begin + i, k.begin + j});
    };
  }
  for (const Var& w : in.weights) p.weights.push_back(w.value().to_vector<double>());
  if (in.input.defined()) {
    p.input = rows_of(in.input.value(), k);
    p.width = s.width;
  }
  p.training = s.training;
  p.layer = o.layer;
  p.layers = o.layers;
  if (o.initial_state.defined())
    p.initial_state = o.initial_state.value().select(0, static_cast<std::int64_t>(index)).to_vector<double>();
  return p;
}

// Where row i, head h of a sequence's (n, heads, width) block goes in the batch's array.
void place(const std::vector<double>& from, std::vector<double>& to, const Sequences::Rows& rows, std::int64_t n,
           std::int64_t width) {
  std::copy(from.begin(), from.end(), to.begin() + (rows.batch * n + rows.begin) * width);
}

}  // namespace

void fit(const Mechanism& mechanism, Trial& trial) {
  if (!mechanism.supports(Feature::grouped)) trial.kv_heads = trial.heads;
}

Trial usual_trial(const Mechanism& mechanism) {
  Trial trial;
  fit(mechanism, trial);
  trial.options.causal = !mechanism.supports(Feature::bidirectional);
  return trial;
}

std::vector<Var> Inputs::tokens() const {
  std::vector<Var> all{q, k, v};
  if (input.defined()) all.push_back(input);
  return all;
}

std::vector<Var> Inputs::leaves() const {
  std::vector<Var> all = tokens();
  for (const Var& w : weights)
    if (w.needs_grad()) all.push_back(w);
  return all;
}

Inputs random_inputs(Context& context, const Mechanism& mechanism, const Trial& s, DType dtype, std::uint64_t seed) {
  Random random(seed, 1);
  Inputs in{leaf(context, {s.batch, s.n_q, s.heads, s.d_k}, dtype, random),
            leaf(context, {s.batch, s.n_k, s.kv_heads, s.d_k}, dtype, random),
            leaf(context, {s.batch, s.n_k, s.kv_heads, s.d_v}, dtype, random, 0.5),
            {},
            {}};
  if (mechanism.needs_input()) in.input = leaf(context, {s.batch, s.n_k, s.width}, dtype, random);
  const LayerSizes sizes{.heads = s.heads,
                         .kv_heads = s.kv_heads,
                         .d_k = s.d_k,
                         .d_v = s.d_v,
                         .width = mechanism.needs_input() ? s.width : 0,
                         .max_length = std::max<std::int64_t>(s.n_k, 1)};
  in.weights = make_weights(context, mechanism, sizes, dtype);
  for (const Var& w : in.weights)
    if (w.needs_grad()) {
      const Tensor start = w.value();
      // Wide matrices get less, so that what they make of a row stays about as large as the row.
      const double size = start.rank() > 2 ? std::fmin(0.5, 4.0 / static_cast<double>(start.dim(-1))) : 0.5;
      edit(start, [&](double x, std::size_t) { return x + size * random.normal(); });
    }
  return in;
}

AttentionResult run(Context&, Tape& tape, const Inputs& inputs, const Mechanism& mechanism, const Trial& trial) {
  AttentionOptions options = trial.options;
  options.weights = inputs.weights;
  options.input = inputs.input;
  return attention(tape, inputs.q, inputs.k, inputs.v, mechanism, options);
}

Expected expected(const Context& context, const Inputs& in, const Mechanism& mechanism, const Trial& s) {
  Expected out;
  out.o.assign(at(s.batch * s.n_q * s.heads * s.d_v), 0.0);
  out.lse.assign(at(s.batch * s.n_q * s.heads), -INFINITY);
  const Sequences& key_rows = s.options.keys.empty() && s.n_q == s.n_k ? s.options.queries : s.options.keys;
  const auto queries = s.options.queries.rows(s.batch, s.n_q, "queries"), keys = key_rows.rows(s.batch, s.n_k, "keys");
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const reference::Result r = defined(problem_of(context, in, s, i, {queries[i], keys[i]}), mechanism);
    place(r.o, out.o, queries[i], s.n_q, s.heads * s.d_v);
    if (!r.lse.empty()) place(r.lse, out.lse, queries[i], s.n_q, s.heads);
    out.final_state.insert(out.final_state.end(), r.final_state.begin(), r.final_state.end());
  }
  return out;
}

double least_of(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126; }

double moved(double x, double noise, Random& random) {
  return x * (1.0 + ((random.bits() & 1u) != 0 ? noise : -noise));
}

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-53;
  }
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return NAN;
  double worst = 0.0, scale = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // equal infinities, and exact values, cost nothing
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference < INFINITY)) return NAN;
    worst = std::fmax(worst, difference);
  }
  for (double x : b)
    if (std::isfinite(x)) scale = std::fmax(scale, std::abs(x));
  return worst == 0.0 ? 0.0 : worst / std::fmax(scale, 1e-30);
}

namespace {

// The outputs that are differentiated, each with fixed weights. Rows without any key have lse = -inf and get weight 0.
struct Weighted {
  std::vector<Var> outputs;
  std::vector<Tensor> weights;
};

Weighted weighted(Context& context, const AttentionResult& result, const Pull& pull = {}) {
  Weighted w;
  Random random(23, 5), noise(pull.seed, 6);
  for (const Var* output : {&result.output, &result.lse, &result.final_state}) {
    if (!output->defined()) continue;
    const std::vector<double> values = output->value().to_vector<double>();
    std::vector<double> weights(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double draw = random.normal();
      weights[i] = std::isfinite(values[i]) ? draw : 0.0;
    }
    Tensor weight = Tensor::from<double>(context, output->shape(), weights);
    if (pull.rounded)  // what comes beside the attended values is wide
      weight = weight.to(context, output == &result.output ? *pull.rounded : wide_type(*pull.rounded));
    weight = weight.to(context, DType::f64);
    if (pull.noise > 0.0) edit(weight, [&](double x, std::size_t) { return moved(x, pull.noise, noise); });
    w.outputs.push_back(*output);
    w.weights.push_back(weight.to(context, output->dtype()));
  }
  return w;
}

// Every row that the tiled engine attends times 1 + noise or 1 - noise, as its backward and what comes after it find
// it. (Observers only look; this one is a rounding.)
class RowNoise final : public TapeObserver {
 public:
  RowNoise(double noise, std::uint64_t seed) : noise_(noise), random_(seed, 7) {}
  void on_values(const Tape&, const Op& op, std::span<const Tensor> values) override {
    if (op.name != std::string_view("tiled_attention") || noise_ == 0.0) return;
    double factor = 1.0;
    edit(values[0], [&](double x, std::size_t i) {
      if (static_cast<std::int64_t>(i) % values[0].dim(-1) == 0) factor = moved(1.0, noise_, random_);
      return x * factor;
    });
  }

 private:
  double noise_;
  Random random_;
};

std::vector<double> grad_of(const Var& leaf) {
  if (!leaf.defined() || !leaf.needs_grad()) return {};
  if (!leaf.grad().defined()) return std::vector<double>(at(leaf.value().numel()), 0.0);  // nothing flowed there
  return leaf.grad().to_vector<double>();
}

}  // namespace

Gradients gradients(Context& context, const Inputs& in, const Mechanism& mechanism, const Trial& s, const Pull& pull) {
  std::vector<Var> leaves = in.leaves();
  leaves.insert(leaves.end(), {s.options.bias, s.options.diagonal_bias, s.options.initial_state});
  for (const Var& leaf : leaves)
    if (leaf.needs_grad()) leaf.slot()->grad = Tensor();
  RowNoise rows(pull.rows, pull.seed);
  Tape tape(context, {.training = s.training, .observer = pull.rows > 0.0 ? &rows : nullptr});
  const Weighted w = weighted(context, run(context, tape, in, mechanism, s), pull);
  tape.backward(w.outputs, w.weights);
  Gradients g{grad_of(in.q),
              grad_of(in.k),
              grad_of(in.v),
              grad_of(s.options.bias),
              grad_of(s.options.diagonal_bias),
              grad_of(s.options.initial_state),
              grad_of(in.input),
              {}};
  for (const Var& w : in.weights) g.weights.push_back(grad_of(w));
  return g;
}

double objective(Context& context, const Inputs& in, const Mechanism& mechanism, const Trial& s) {
  Tape tape(context, {.record = false, .training = s.training});
  const Weighted w = weighted(context, run(context, tape, in, mechanism, s));
  double sum = 0.0;
  for (std::size_t i = 0; i < w.outputs.size(); ++i) {
    const std::vector<double> values = w.outputs[i].value().to_vector<double>(),
                              weights = w.weights[i].to_vector<double>();
    for (std::size_t c = 0; c < values.size(); ++c)
      if (weights[c] != 0.0) sum += values[c] * weights[c];
  }
  return sum;
}

}  // namespace fovea::conformance

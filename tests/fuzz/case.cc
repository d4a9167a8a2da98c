#include "fuzz/case.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "conformance/trial.h"
#include "core/isa.h"
#include "core/rng.h"
#include "fuzz/layer.h"
#include "fuzz/tensors.h"

namespace fovea::fuzz {
namespace {

using conformance::Inputs;
using conformance::Trial;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<double> normals(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  Random random(seed, stream);
  std::vector<double> values(count);
  for (double& x : values) x = random.normal();
  return values;
}

Context make_context(int threads) { return Context({.threads = threads, .seed = 7, .memory = {.poison = true}}); }

Pattern pattern_of(const std::string& name) {
  if (name == "checkers")
    return Pattern::predicate(name, [](std::int64_t i, std::int64_t j) { return (i + 2 * j) % 3 != 0; });
  if (name == "blocks") return Pattern::block_diagonal(5) | Pattern::comb(7, 0, 2);
  return Pattern::predicate(name, [](std::int64_t, std::int64_t) { return false; });
}

// The sizes of a bias whose axes are letters, or 1 where it is broadcast.
Shape broadcast_shape(const std::string& axes, const Spec& s) {
  Shape shape = axes.size() == 2 ? Shape{1, 1, 2 * (std::max({s.n_q, s.n_k, std::int64_t{1}}) + s.longer) - 1}
                                 : Shape{1, 1, 1, 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t sizes[] = {s.batch, s.heads, s.n_q, s.n_k};
    if (axes[i] != '1') shape.set(static_cast<int>(i), sizes[i]);
  }
  return shape;
}

Tensor mask_of(const Context& context, const Spec& s) {
  const Shape shape = broadcast_shape(s.mask, s);
  Random random(static_cast<std::uint64_t>(s.seed), 3);
  std::vector<std::uint8_t> keep(at(shape.numel()));
  for (auto& bit : keep) bit = random.below(3) != 0;
  return Tensor::from<std::uint8_t>(context, shape, keep);
}

// Everything of the call that is no leaf.
Trial trial_of(const Context& context, const Spec& s) {
  Trial t;
  t.batch = s.batch, t.n_q = s.n_q, t.n_k = s.n_k, t.heads = s.heads, t.kv_heads = s.kv_heads;
  t.d_k = s.d_k, t.d_v = s.d_v, t.width = s.width;
  t.training = s.dropout > 0.0;
  AttentionOptions& o = t.options;
  o.causal = s.causal;
  if (s.top_left) o.align = Align::top_left;
  if (s.scale != 0.0) o.scale = s.scale;
  if (s.windowed) o.window = Window{s.left, s.right};
  if (!s.pattern.empty()) o.pattern = pattern_of(s.pattern);
  if (!s.mask.empty()) o.mask = mask_of(context, s);
  o.alibi = s.alibi;
  if (!s.rotary.empty()) o.rotary = Rotary{.halves = s.rotary == "halves"};
  o.dropout_p = s.dropout;
  o.queries = queries_of(s);
  o.keys = keys_of(s);
  o.layer = s.index;
  o.layers = s.layers;
  o.return_lse = s.lse;
  o.final_state = s.final_state;
  return t;
}

// Puts a leaf where the call has it.
void place(const std::string& name, const Var& x, Inputs& in, Trial& t) {
  if (name == "q")
    in.q = x;
  else if (name == "k")
    in.k = x;
  else if (name == "v")
    in.v = x;
  else if (name == "input")
    in.input = x;
  else if (name == "bias")
    t.options.bias = x;
  else if (name == "diagonals")
    t.options.diagonal_bias = x;
  else if (name == "state")
    t.options.initial_state = x;
  else
    in.weights.push_back(x);
}

// Ready to run.
struct Call {
  std::function<AttentionResult(Tape&)> forward;
  std::vector<Var> leaves;
};

Call layer_call(Context& context, const Case& c, DType dtype, const std::vector<Leaf>& leaves) {
  const auto layer = std::make_shared<Layer>(context, c.spec, dtype, leaves);
  return {[layer](Tape& tape) { return AttentionResult{layer->run(tape), {}, {}}; }, layer->vars()};
}

struct Built {
  Trial trial;
  Inputs inputs;
};

Call attention_call(Context& context, const Case& c, const Built& built, std::vector<Var> leaves) {
  return {[&context, &c, built](Tape& tape) {
            return conformance::run(context, tape, built.inputs, c.mechanism, built.trial);
          },
          std::move(leaves)};
}

// The leaves in double, dense.
Built exact_inputs(const Context& context, const Case& c, const std::vector<Leaf>& leaves, std::vector<Var>& vars) {
  Built built{trial_of(context, c.spec), {}};
  for (const Leaf& leaf : leaves) {
    const Tensor x = Tensor::from<double>(context, leaf.shape, leaf.values);
    vars.push_back(leaf.trained ? Var::leaf(x) : Var(x));
    place(leaf.name, vars.back(), built.inputs, built.trial);
  }
  return built;
}

Call exact_call(Context& context, const Case& c, const std::vector<Leaf>& leaves) {
  if (c.spec.layer) return layer_call(context, c, DType::f64, leaves);
  std::vector<Var> vars;
  const Built built = exact_inputs(context, c, leaves, vars);
  return attention_call(context, c, built, std::move(vars));
}

// The numbers of a leaf as the call has them: NaN in rows of no sequence, where the spec says so.
std::vector<double> given(const Case& c, std::size_t i) {
  const Spec& s = c.spec;
  const Leaf& leaf = c.leaves[i];
  std::vector<double> values = leaf.values;
  const bool token = i < 3 || leaf.name == "input", shared = i < 3 && s.strides[i] == 'z';
  if (!token || shared || !s.nan_padding) return values;
  const Sequences queries = queries_of(s), own = keys_of(s), keys = own.empty() && s.n_q == s.n_k ? queries : own;
  const std::int64_t n = leaf.shape[1], row = leaf.shape.numel() / std::max<std::int64_t>(leaf.shape[0] * n, 1);
  for (const std::int64_t r : padding(i == 0 ? queries : keys, leaf.shape[0], n))
    std::fill_n(values.begin() + r * row, row, NAN);
  return values;
}

Call subject_call(Context& context, const Case& c) {
  if (c.spec.layer) return layer_call(context, c, c.dtype, c.leaves);
  Built built{trial_of(context, c.spec), {}};
  std::vector<Var> vars;
  for (std::size_t i = 0; i < c.leaves.size(); ++i) {
    const Leaf& leaf = c.leaves[i];
    const auto stride = static_cast<Stride>(i < 3 ? c.spec.strides[i] : 'd');
    const Tensor x = laid_out(context, {leaf.shape, leaf.dtype, stride}, given(c, i));
    vars.push_back(leaf.trained ? Var::leaf(x) : Var(x));
    place(leaf.name, vars.back(), built.inputs, built.trial);
  }
  return attention_call(context, c, built, std::move(vars));
}

std::vector<Leaf> disturbed(const std::vector<Leaf>& leaves, const Noise& noise) {
  std::vector<Leaf> out = leaves;
  Random random(noise.seed, 11);
  for (Leaf& leaf : out)
    for (double& x : leaf.values) x = conformance::moved(x, noise.size, random);
  return out;
}

std::int64_t last_of(const Shape& shape) { return shape.rank() == 0 ? 1 : std::max<std::int64_t>(shape.dim(-1), 1); }

std::vector<double> gradient_of(const Var& leaf) {
  if (!leaf.grad().defined()) return std::vector<double>(at(leaf.value().numel()), 0.0);
  return leaf.grad().to_vector<double>();
}

Outcome pulled(Context& context, const Case& c, const Call& call, const Noise& noise) {
  Tape tape(context, {.training = c.spec.dropout > 0.0});
  const AttentionResult result = call.forward(tape);
  Outcome out;
  std::vector<Var> outputs;
  std::vector<Tensor> seeds;
  Random random(noise.seed, 12);
  for (const auto& [name, x] : {std::pair("output", result.output), std::pair("log-sum-exp", result.lse),
                                std::pair("final state", result.final_state)}) {
    if (!x.defined()) continue;
    out.outputs.push_back({name, last_of(x.shape()), x.value().to_vector<double>()});
    std::vector<double> pull = pulls(c, out.outputs.back(), outputs.size());
    if (noise.of_outputs)
      conformance::edit(x.value(), [&](double y, std::size_t) { return conformance::moved(y, noise.size, random); });
    else
      for (double& p : pull) p = conformance::moved(p, noise.size, random);
    outputs.push_back(x);
    seeds.push_back(Tensor::from<double>(context, x.shape(), pull).to(context, x.dtype()));
  }
  tape.backward(outputs, seeds);
  for (std::size_t i = 0; i < call.leaves.size(); ++i)
    if (c.leaves[i].trained)
      out.gradients.push_back({"d " + c.leaves[i].name, last_of(c.leaves[i].shape), gradient_of(call.leaves[i])});
  return out;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b, bool freely) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])) && !freely) return false;
  return true;
}

void force(const std::string& name) {
  const std::vector<Isa> available = available_isas();
  Isa chosen = available.back();
  for (const Isa isa : available)
    if (name_of(isa) == name) chosen = isa;
  force_isa(chosen);
}

}  // namespace

std::vector<std::int64_t> padding(const Sequences& sequences, std::int64_t batch, std::int64_t n) {
  std::vector<bool> real(at(batch * n), false);
  for (const Sequences::Rows& rows : sequences.rows(batch, n, "rows"))
    std::fill_n(real.begin() + rows.batch * n + rows.begin, rows.count, true);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < real.size(); ++i)
    if (!real[i]) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

std::vector<double> pulls(const Case& c, const Part& output, std::size_t index) {
  if (c.drawn.size() <= index) c.drawn.resize(index + 1);
  std::vector<double>& kept = c.drawn[index];
  if (kept.size() != output.values.size())
    kept = rounded(normals(output.values.size(), static_cast<std::uint64_t>(c.spec.seed), 20 + index),
                   index == 0 ? c.dtype : wide_type(c.dtype));
  std::vector<double> pull = kept;
  for (std::size_t i = 0; i < pull.size(); ++i)
    if (!std::isfinite(output.values[i])) pull[i] = 0.0;
  return pull;
}

Subject run_subject(const Case& c) {
  force(c.spec.isa);
  Context context = make_context(1);
  Subject subject;
  for (std::size_t call = 0; call < c.spec.threads.size(); ++call) {
    context.set_threads(c.spec.threads[call]);
    const Outcome now = pulled(context, c, subject_call(context, c), {});
    if (call == 0) {
      subject.outcome = now;
      continue;
    }
    const auto compare = [&](const std::vector<Part>& a, const std::vector<Part>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        // Gradients of weights are sums over all rows by the vendor's products, which divide them by threads.
        const bool freely = c.mechanism.kind().rounds_freely || a[i].name.starts_with("d weight");
        if (!same_bits(a[i].values, b[i].values, freely) && subject.differs.empty()) subject.differs = a[i].name;
      }
    };
    compare(subject.outcome.outputs, now.outputs);
    compare(subject.outcome.gradients, now.gradients);
  }
  force({});
  return subject;
}

Outcome run_exact(const Case& c, const Noise& noise) {
  force(noise.portable ? "portable" : "");
  Context context = make_context(1);
  const std::vector<Leaf> leaves = noise.of_outputs ? c.leaves : disturbed(c.leaves, noise);
  const Outcome out = pulled(context, c, exact_call(context, c, leaves), noise);
  force({});
  return out;
}

std::vector<Part> define(const Case& c, const Move& move) {
  const Context context = make_context(1);
  std::vector<Leaf> leaves = c.leaves;
  if (move.direction != nullptr)
    for (std::size_t i = 0; i < leaves.size(); ++i)
      for (std::size_t j = 0; j < leaves[i].values.size(); ++j)
        leaves[i].values[j] += move.step * (*move.direction)[i][j];
  if (c.spec.layer) return {{"output", c.spec.width, define_layer(c, leaves)}};
  std::vector<Var> vars;
  const Built built = exact_inputs(context, c, leaves, vars);
  const conformance::Expected e = conformance::expected(context, built.inputs, c.mechanism, built.trial);
  std::vector<Part> out{{"output", c.spec.d_v, e.o}};
  if (c.spec.lse) out.push_back({"log-sum-exp", c.spec.heads, e.lse});
  if (c.spec.final_state) out.push_back({"final state", 1, e.final_state});
  return out;
}

namespace {

// As a new layer has them, a little changed: biases start at 0.
void add_layer_leaves(Context& context, Case& c) {
  const Layer layer(context, c.spec, DType::f64);
  for (std::size_t i = 0; i < layer.vars().size(); ++i) {
    const Var& x = layer.vars()[i];
    const DType dtype = i == 0 ? c.dtype : wide_type(c.dtype);
    std::vector<double> values = x.value().to_vector<double>();
    const std::vector<double> noise = normals(values.size(), static_cast<std::uint64_t>(c.spec.seed), 40 + i);
    for (std::size_t j = 0; j < values.size() && x.needs_grad(); ++j) values[j] += (i == 0 ? 1.0 : 0.1) * noise[j];
    c.leaves.push_back({layer.names()[i], x.shape(), dtype, x.needs_grad(), rounded(values, dtype)});
  }
}

// The shape of a state is the mechanism's business.
Shape state_shape(Context& context, const Case& c, const Inputs& in, Trial probe) {
  probe.options.final_state = true;
  probe.options.return_lse = false;
  Tape tape(context, {.record = false});
  return conformance::run(context, tape, in, c.mechanism, probe).final_state.shape();
}

void add_call_leaves(Context& context, Case& c) {
  const Spec& s = c.spec;
  const DType wide = wide_type(c.dtype);
  const auto seed = static_cast<std::uint64_t>(s.seed);
  const Trial trial = trial_of(context, s);
  const Inputs in = conformance::random_inputs(context, c.mechanism, trial, DType::f64, seed);
  const auto add = [&](const std::string& name, const Var& x, DType dtype, double size) {
    std::vector<double> values = x.value().to_vector<double>();
    for (double& value : values) value *= size;
    const std::size_t i = c.leaves.size();
    if (i < 3) repeat(x.shape(), static_cast<Stride>(s.strides[i]), values);
    c.leaves.push_back({name, x.shape(), dtype, x.needs_grad(), rounded(values, dtype)});
  };
  const auto add_normal = [&](const std::string& name, const Shape& shape, std::uint64_t stream) {
    c.leaves.push_back({name, shape, wide, true, rounded(normals(at(shape.numel()), seed, stream), wide)});
  };
  add("q", in.q, c.dtype, s.size);
  add("k", in.k, c.dtype, s.size);
  add("v", in.v, c.dtype, 1.0);
  if (in.input.defined()) add("input", in.input, c.dtype, 1.0);
  for (std::size_t w = 0; w < in.weights.size(); ++w) add("weight " + std::to_string(w), in.weights[w], wide, 1.0);
  if (!s.bias.empty()) add_normal("bias", broadcast_shape(s.bias, s), 4);
  if (!s.diagonals.empty()) add_normal("diagonals", broadcast_shape(s.diagonals, s), 5);
  if (!s.state) return;
  add_normal("state", state_shape(context, c, in, trial), 6);
  // Positive, as sums of positive features are: a denominator must not pass through 0.
  for (double& x : c.leaves.back().values) x = std::abs(x);
}

}  // namespace

Case make_case(const Spec& spec) {
  Context context = make_context(1);
  Case c{spec, Mechanism::parse(spec.mechanism), dtype_from_name(spec.dtype), {}, {}};
  spec.layer ? add_layer_leaves(context, c) : add_call_leaves(context, c);
  return c;
}

std::string run_wrong(const Spec& s) {
  Context context = make_context(1);
  const Mechanism mechanism = Mechanism::parse(s.mechanism);
  Trial trial = trial_of(context, s);
  Inputs in = conformance::random_inputs(context, mechanism, trial, dtype_from_name(s.dtype), 1);
  const DType wide = wide_type(in.q.dtype());
  if (!s.bias.empty()) trial.options.bias = Var(Tensor::zeros(context, broadcast_shape(s.bias, s), wide));
  if (!s.diagonals.empty())
    trial.options.diagonal_bias = Var(Tensor::zeros(context, broadcast_shape(s.diagonals, s), wide));
  if (s.state) trial.options.initial_state = Var(Tensor::zeros(context, {s.batch, s.kv_heads, s.d_k, s.d_v}, wide));
  spoil(context, s.wrong, in, trial);
  try {
    Tape tape(context, {.record = false, .training = true});
    conformance::run(context, tape, in, mechanism, trial);
    return "ran without a word";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) return std::string("internal error: ") + error.what();
    if (s.wrong == "feature" && error.code() != ErrorCode::unsupported)
      return std::string("not named: ") + error.what();
    return {};
  }
}

}  // namespace fovea::fuzz

#include <algorithm>
#include <cmath>

#include "core/visit_device.h"
#include "mechanisms/compose.h"
#include "mechanisms/mask.h"
#include "mechanisms/results.h"
#include "mechanisms/score/additive_kernels.h"
#include "ops/column_sum.h"
#include "ops/sequence.h"

// s_ij = a . tanh(Wq q_i + Wk k_j) is no product: it has kernels of its own.
namespace fovea {
namespace {

enum Weight : std::size_t { kQuery, kKey, kScore };
enum Saved : std::size_t { kLeft, kRight, kVector, kValue };

kernels::AdditiveInputs inputs_of(const std::vector<Tensor>& in) {
  return {in[kLeft], in[kRight], in[kVector], in[kValue]};
}

void additive_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& pairs = std::any_cast<const kernels::AdditivePairs&>(node.attributes);
  const kernels::AdditiveInputs in = inputs_of(node.saved);
  const DType wide = in.left.dtype();
  const std::int64_t sequences = std::ssize(pairs.queries), heads = in.left.dim(2), width = in.left.dim(3);
  const kernels::AttendAdditiveVjp io{
      in,
      node.grad().contiguous(context),
      {Tensor::zeros(context, in.left.shape(), wide), Tensor::zeros(context, in.right.shape(), wide),
       Tensor::zeros(context, {sequences, heads, width}, wide), Tensor::zeros(context, in.value.shape(), wide)},
      &pairs};
  visit_device(context, io, [&]<Device D>() { kernels::attend_additive_backward<D>(context, io); });
  tape.accumulate(node.inputs[kLeft], io.d.left);
  tape.accumulate(node.inputs[kRight], io.d.right);
  tape.accumulate(node.inputs[kVector],
                  column_sums(context, io.d.vector.reshape({sequences, heads * width})).reshape({heads, width}));
  tape.accumulate(node.inputs[kValue], io.d.value.to(context, in.value.dtype()));
}

constexpr Op kAdditive{"additive_attention", additive_backward};

AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const std::vector<Var>& weights = call.options.weights;
  const DType wide = weights[kQuery].dtype();
  const auto project = [&](const Var& x, const Sequences& rows, const Var& w) {
    return multiply_heads(tape, cast(tape, fill_padding(tape, x, rows), wide), w);
  };
  const std::vector<Var> inputs{project(call.q, call.options.queries, weights[kQuery]),
                                project(call.k, key_sequences(call), weights[kKey]), weights[kScore], call.v};
  std::vector<Tensor> in;
  for (const Var& x : inputs) in.push_back(x.value().contiguous(context));
  const kernels::AdditivePairs pairs{call.queries, call.keys, kept_by(call.options)};
  const Shape shape{call.q.dim(0), call.q.dim(1), call.q.dim(2), call.v.dim(3)};
  const kernels::AttendAdditive io{inputs_of(in), output_like(context, shape, call.v.dtype(), call.queries), &pairs};
  visit_device(context, io, [&]<Device D>() { kernels::attend_additive<D>(context, io); });
  return {tape.record(kAdditive, inputs, {io.o}, std::move(in), pairs).front(), {}, {}};
}

// Row r of x (rows, d) by the matrix of its head, w (heads, d, a).
double projected(const double* x, const std::vector<double>& w, std::int64_t d, std::int64_t column) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < d; ++c) sum += x[c] * w[static_cast<std::size_t>(column + c)];
  return sum;
}

reference::Result define(const reference::Problem& given, const Mechanism&) {
  reference::Problem p = given;
  const std::int64_t width = static_cast<std::int64_t>(p.weights[kScore].size()) / p.heads;
  const auto transposed = [&](const std::vector<double>& w, std::int64_t heads) {  // (heads, d, a) -> (heads, a, d)
    std::vector<double> out(w.size());
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t c = 0; c < p.d_k; ++c)
        for (std::int64_t m = 0; m < width; ++m)
          out[static_cast<std::size_t>((h * width + m) * p.d_k + c)] =
              w[static_cast<std::size_t>((h * p.d_k + c) * width + m)];
    return out;
  };
  std::fill(p.q.begin(), p.q.end(), 0.0);
  p.bias = [&, wq = transposed(p.weights[kQuery], p.heads), wk = transposed(p.weights[kKey], p.kv_heads)](
               std::int64_t head, std::int64_t i, std::int64_t j) {
    double sum = 0.0;
    const std::int64_t g = given.kv_head(head);
    for (std::int64_t m = 0; m < width; ++m)
      sum += given.weights[kScore][static_cast<std::size_t>(head * width + m)] *
             std::tanh(projected(given.query(i, head), wq, given.d_k, (head * width + m) * given.d_k) +
                       projected(given.key(j, g), wk, given.d_k, (g * width + m) * given.d_k));
    return sum;
  };
  return reference::pairwise(p, reference::Weights::softmax);
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& s) {
  const std::int64_t given = mechanism.integer("channels"), width = given == 0 ? s.d_k : given;
  return {{.name = "query",
           .shape = {s.heads, s.d_k, width},
           .init = Init::xavier(s.d_k, width),
           .decay = true,
           .axes = "heads, d_k, channels",
           .meaning = "what a head multiplies q with; channels=0: d_k of them"},
          {.name = "key",
           .shape = {s.kv_heads, s.d_k, width},
           .init = Init::xavier(s.d_k, width),
           .decay = true,
           .axes = "kv_heads, d_k, channels",
           .meaning = "what a kv head multiplies k with"},
          {.name = "score",
           .shape = {s.heads, width},
           .init = Init::xavier(width, 1),
           .decay = true,
           .axes = "heads, channels",
           .meaning = "v: the score is v . tanh(q W_q + k W_k)"}};
}

}  // namespace

const MechanismKind& additive_kind() {
  static const MechanismKind kind{
      .name = "additive",
      .family = "score",
      .summary = "softmax of scores that a small network makes of a query and a key",
      .paper = "Bahdanau, Cho and Bengio 2015, Neural Machine Translation by Jointly Learning to Align and Translate",
      .parameters = {{"channels", std::int64_t{0}, 0, 1 << 16, {}, "of the network; 0: the width of a head"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding, Feature::packed,
                   Feature::window, Feature::pattern, Feature::step, Feature::grouped, Feature::strict},
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea

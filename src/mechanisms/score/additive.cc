#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "mechanisms/compose.h"
#include "mechanisms/layout.h"
#include "ops/cpu/additive.h"
#include "ops/sequence.h"
#include "policy/math.h"

// s_ij = a . tanh(Wq q_i + Wk k_j) is no product, so it has loops of its own: a row of scores at a time, made again in
// backward. Nothing larger than a row is stored.
namespace fovea {
namespace {

enum Weight : std::size_t { kQuery, kKey, kScore };
enum Saved : std::size_t { kLeft, kRight, kVector, kValue };

constexpr std::int64_t kRows = 16;  // queries of a task

struct Rows {
  std::vector<Sequences::Rows> queries, keys;
  Pattern pattern;
};

// One sequence of one head. Tensors are dense: left (b, n_q, heads, a) = Wq q and right (b, n_k, kv_heads, a) = Wk k,
// vector (heads, a), value (b, n_k, kv_heads, d_v).
template <class T>
class Head {
 public:
  using R = Wide<T>;

  Head(const Rows& rows, std::span<const Tensor> in, std::size_t sequence, std::int64_t head)
      : pattern_(&rows.pattern),
        q_(rows.queries[sequence]),
        k_(rows.keys[sequence]),
        head_(head),
        kv_head_(head * in[kRight].dim(2) / in[kLeft].dim(2)),
        left_(in[kLeft]),
        right_(in[kRight]),
        value_(in[kValue]),
        vector_(in[kVector].data<R>() + head * width()) {}

  std::int64_t width() const { return left_.dim(3); }
  template <class X>
  static X* row(const Tensor& x, const Sequences::Rows& rows, std::int64_t i, std::int64_t head) {
    return x.data<X>() + (((rows.batch * x.dim(1)) + rows.begin + i) * x.dim(2) + head) * x.dim(3);
  }
  template <class X>
  X* of_query(const Tensor& x, std::int64_t i) const {
    return row<X>(x, q_, i, head_);
  }
  template <class X>
  X* of_key(const Tensor& x, std::int64_t j) const {
    return row<X>(x, k_, j, kv_head_);
  }
  const R* left(std::int64_t i) const { return of_query<R>(left_, i); }
  const R* right(std::int64_t j) const { return of_key<R>(right_, j); }
  const T* value(std::int64_t j) const { return of_key<T>(value_, j); }

  // Query i and keys [begin, end), for the loops.
  cpu::AdditiveRow keys(std::int64_t i, std::int64_t begin, std::int64_t end) const {
    return {left_.dtype(), left(i), vector_, right(begin), right_.dim(2) * right_.dim(3), end - begin, width()};
  }

  // Softmax weights of row i; all 0 without keys.
  void weigh(std::int64_t i, std::vector<R>& p) const {
    p.assign(static_cast<std::size_t>(k_.count), R(0));
    R top = -math::kInfinity<R>, total = 0;
    score(i, p);
    for (const R s : p) top = std::max(top, s);
    if (top == -math::kInfinity<R>) return p.assign(p.size(), R(0));
    for (R& s : p) total += s = s == -math::kInfinity<R> ? R(0) : math::exp(s - top);
    for (R& s : p) s /= total;
  }

 private:
  // Scores of the keys that the pattern keeps, run by run; -inf for the others.
  void score(std::int64_t i, std::vector<R>& s) const {
    for (std::int64_t begin = 0, end = 0; begin < k_.count; begin = end) {
      const std::int64_t position = i + k_.count - q_.count;
      const bool kept = pattern_->keep(position, begin);
      for (end = begin + 1; end < k_.count && pattern_->keep(position, end) == kept;) ++end;
      R* to = s.data() + begin;
      kept ? cpu::additive_scores(keys(i, begin, end), to) : std::fill(to, to + end - begin, -math::kInfinity<R>);
    }
  }

  const Pattern* pattern_;
  Sequences::Rows q_, k_;
  std::int64_t head_, kv_head_;
  const Tensor &left_, &right_, &value_;
  const R* vector_;
};

template <class T>
void attend_rows(const Context& context, const Rows& rows, std::span<const Tensor> in, const Tensor& o) {
  using R = Wide<T>;
  struct Task {
    std::size_t sequence;
    std::int64_t head, begin;
  };
  std::vector<Task> tasks;
  for (std::size_t s = 0; s < rows.queries.size(); ++s)
    for (std::int64_t head = 0; head < o.dim(2); ++head)
      for (std::int64_t begin = 0; begin < rows.queries[s].count; begin += kRows) tasks.push_back({s, head, begin});
  parallel_for(context, std::ssize(tasks), [&](std::int64_t index) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    const Head<T> head(rows, in, task.sequence, task.head);
    std::vector<R> p, sum(static_cast<std::size_t>(o.dim(3)));
    for (std::int64_t i = task.begin; i < std::min(task.begin + kRows, rows.queries[task.sequence].count); ++i) {
      head.weigh(i, p);
      std::fill(sum.begin(), sum.end(), R(0));
      for (std::size_t j = 0; j < p.size(); ++j) {
        if (p[j] == R(0)) continue;
        const T* value = head.value(static_cast<std::int64_t>(j));
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += p[j] * static_cast<R>(value[c]);
      }
      T* to = head.template of_query<T>(o, i);
      for (std::size_t c = 0; c < sum.size(); ++c) to[c] = static_cast<T>(sum[c]);
    }
  });
}

// Gradients: as wide as their inputs, d_value wide, d_vector (sequences, heads, a).
struct Pulled {
  Tensor left, right, value, vector;
};

// One row: p and d_o are at hand, ds_j = p_j (d_o . v_j - sum over k of p_k d_o . v_k).
template <class T>
void pull_row(const Head<T>& head, std::int64_t i, std::vector<Wide<T>>& p, const T* d_o, const Pulled& d,
              Wide<T>* d_vector) {
  using R = Wide<T>;
  const std::int64_t d_v = d.value.dim(3);
  std::vector<R> dp(p.size(), R(0));
  R mean = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    if (p[j] == R(0)) continue;
    const auto key = static_cast<std::int64_t>(j);
    const T* v = head.value(key);
    R* d_value = head.template of_key<R>(d.value, key);
    const R weight = p[j];
    R sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < d_v; ++c) {
      sum += static_cast<R>(d_o[c]) * static_cast<R>(v[c]);
      d_value[c] += weight * static_cast<R>(d_o[c]);
    }
    dp[j] = sum;
    mean += p[j] * dp[j];
  }
  for (std::size_t j = 0; j < p.size(); ++j) dp[j] = p[j] == R(0) ? R(0) : p[j] * (dp[j] - mean);
  cpu::additive_pull(head.keys(i, 0, std::ssize(p)), dp.data(),
                     {head.template of_query<R>(d.left, i), d_vector, head.template of_key<R>(d.right, 0)});
}

// Heads that share keys follow one another: their sums have one order.
template <class T>
void pull_rows(const Context& context, const Rows& rows, std::span<const Tensor> in, const Tensor& d_o,
               const Pulled& d) {
  const std::int64_t heads = in[kLeft].dim(2), kv_heads = in[kRight].dim(2), group = heads / kv_heads;
  parallel_for(context, std::ssize(rows.queries) * kv_heads, [&](std::int64_t unit) {
    const auto sequence = static_cast<std::size_t>(unit / kv_heads);
    std::vector<Wide<T>> p;
    for (std::int64_t h = unit % kv_heads * group; h < (unit % kv_heads + 1) * group; ++h) {
      const Head<T> head(rows, in, sequence, h);
      Wide<T>* d_vector = d.vector.data<Wide<T>>() + (unit / kv_heads * heads + h) * head.width();
      for (std::int64_t i = 0; i < rows.queries[sequence].count; ++i) {
        head.weigh(i, p);
        pull_row<T>(head, i, p, head.template of_query<T>(d_o, i), d, d_vector);
      }
    }
  });
}

Tensor sum_sequences(const Context& context, const Tensor& parts) {
  const Tensor sum = Tensor::zeros(context, {parts.dim(1), parts.dim(2)}, parts.dtype());
  visit_float(sum.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < parts.numel(); ++i) {
      T& to = sum.data<T>()[i % sum.numel()];
      to = static_cast<T>(to + parts.data<T>()[i]);
    }
  });
  return sum;
}

void additive_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& rows = std::any_cast<const Rows&>(node.attributes);
  const std::vector<Tensor>& in = node.saved;
  const DType wide = in[kLeft].dtype();
  const Pulled d{Tensor::zeros(context, in[kLeft].shape(), wide), Tensor::zeros(context, in[kRight].shape(), wide),
                 Tensor::zeros(context, in[kValue].shape(), wide),
                 Tensor::zeros(context, {std::ssize(rows.queries), in[kLeft].dim(2), in[kLeft].dim(3)}, wide)};
  const Tensor d_o = node.grad().contiguous(context);
  visit_float(in[kValue].dtype(), [&]<class T>() { pull_rows<T>(context, rows, in, d_o, d); });
  tape.accumulate(node.inputs[kLeft], d.left);
  tape.accumulate(node.inputs[kRight], d.right);
  tape.accumulate(node.inputs[kVector], sum_sequences(context, d.vector));
  tape.accumulate(node.inputs[kValue], d.value.to(context, in[kValue].dtype()));
}

constexpr Op kAdditive{"additive_attention", additive_backward};

Pattern pattern_of(const AttentionOptions& options) {
  Pattern pattern;
  if (options.causal) pattern = pattern & Pattern::causal();
  if (options.window) pattern = pattern & Pattern::window(options.window->left, options.window->right);
  if (options.pattern) pattern = pattern & *options.pattern;
  return pattern;
}

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
  const Rows rows{call.queries, call.keys, pattern_of(call.options)};
  const Tensor o =
      output_like(context, {call.q.dim(0), call.q.dim(1), call.q.dim(2), call.v.dim(3)}, call.v.dtype(), call.queries);
  visit_float(o.dtype(), [&]<class T>() { attend_rows<T>(context, rows, in, o); });
  return {tape.record(kAdditive, inputs, {o}, std::move(in), rows).front(), {}, {}};
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
  const auto turned = [&](const std::vector<double>& w, std::int64_t heads) {  // (heads, d, a) -> (heads, a, d)
    std::vector<double> out(w.size());
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t c = 0; c < p.d_k; ++c)
        for (std::int64_t m = 0; m < width; ++m)
          out[static_cast<std::size_t>((h * width + m) * p.d_k + c)] =
              w[static_cast<std::size_t>((h * p.d_k + c) * width + m)];
    return out;
  };
  std::fill(p.q.begin(), p.q.end(), 0.0);
  p.bias = [&, wq = turned(p.weights[kQuery], p.heads), wk = turned(p.weights[kKey], p.kv_heads)](
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
      .memory = StepMemory::cache,
      .run = run,
      .reference = define,
      .flops = dense_flops,
      .first_needed = window_start,
      .weights = weights,
  };
  return kind;
}

}  // namespace fovea

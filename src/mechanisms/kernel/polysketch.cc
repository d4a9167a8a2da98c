#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "mechanisms/kernel/chunks.h"
#include "mechanisms/layout.h"
#include "mechanisms/scanned.h"
#include "ops/work.h"
#include "reference/units.h"

namespace fovea {
namespace {

constexpr double kNormEps = 1e-5;
constexpr std::int64_t kGrain = 64;  // rows

// Every product of two of x (..., r), once: (..., r (r + 1) / 2), those of different ones times sqrt(2). Then
// square_features(x) . square_features(y) = (x . y)^2.
template <class R>
void square_row(const R* x, std::int64_t r, R* y) {
  for (std::int64_t i = 0; i < r; ++i) {
    *y++ = x[i] * x[i];
    const R factor = static_cast<R>(std::numbers::sqrt2) * x[i];
    for (std::int64_t j = i + 1; j < r; ++j) *y++ = factor * x[j];
  }
}

template <class R>
void square_row_backward(const R* x, const R* g, std::int64_t r, R* dx) {
  std::fill_n(dx, r, R(0));
  for (std::int64_t i = 0; i < r; ++i) {
    R sum = static_cast<R>(std::numbers::sqrt2) * *g++ * x[i];  // divided by sqrt(2) below, times 2
    const R factor = static_cast<R>(std::numbers::sqrt2) * x[i];
    for (std::int64_t j = i + 1; j < r; ++j, ++g) {
      sum += *g * x[j];
      dx[j] += factor * *g;
    }
    dx[i] += static_cast<R>(std::numbers::sqrt2) * sum;
  }
}

template <class R, class Body>
void each_row(const Context& context, const Tensor& x, Body&& body) {
  parallel_ranges(context, x.numel() / x.dim(-1), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row, x.data<R>() + row * x.dim(-1));
  });
}

void square_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &x = node.saved[0], g = node.grad().contiguous(context);
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row<R>(context, x, [&](std::int64_t row, const R* from) {
      square_row_backward(from, g.data<R>() + row * g.dim(-1), x.dim(-1), dx.data<R>() + row * x.dim(-1));
    });
  });
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kSquare{"square_features", square_backward};

Var square_features(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context);
  const std::int64_t r = x.dim(-1);
  const Tensor out = Tensor::empty(context, x.shape().with(-1, r * (r + 1) / 2), x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row<R>(context, in,
                [&](std::int64_t row, const R* from) { square_row(from, r, out.data<R>() + row * out.dim(-1)); });
  });
  return tape.record(kSquare, {x}, out, {in});
}

// x[..., :-1] / (x[..., -1] + one)
void divide_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const double one = std::any_cast<double>(node.attributes);
  const Tensor &x = node.saved[0], &y = node.saved[1], g = node.grad().contiguous(context);
  const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row<R>(context, x, [&](std::int64_t row, const R* from) {
      const std::int64_t width = y.dim(-1);
      const R *out = y.data<R>() + row * width, *in = g.data<R>() + row * width;
      R *to = dx.data<R>() + row * (width + 1), inner = 0;
      const R factor = R(1) / (from[width] + static_cast<R>(one));
      for (std::int64_t c = 0; c < width; ++c) {
        to[c] = factor * in[c];
        inner += in[c] * out[c];
      }
      to[width] = -factor * inner;
    });
  });
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kDivide{"divide_by_last", divide_backward};

Var divide_by_last(Tape& tape, const Var& x, double one) {
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context);
  const std::int64_t width = x.dim(-1) - 1;
  const Tensor out = Tensor::empty(context, x.shape().with(-1, width), x.dtype());
  visit_wide(x.dtype(), [&]<class R>() {
    each_row<R>(context, in, [&](std::int64_t row, const R* from) {
      const R factor = R(1) / (from[width] + static_cast<R>(one));
      for (std::int64_t c = 0; c < width; ++c) out.data<R>()[row * width + c] = factor * from[c];
    });
  });
  return tape.record(kDivide, {x}, out, {in, out}, one);
}

// v (b, n, heads, d) with a column of ones: the sum of the weights comes out beside the sum of the values.
Var with_ones(Tape& tape, const Var& v) {
  const Tensor ones = Tensor::empty(tape.context(), v.shape().with(3, 1), v.dtype());
  ones.fill(1.0);
  const Var parts[] = {v, ones};
  return concat(tape, parts, 3);
}

double sketch_factor(const Mechanism& mechanism) {
  const auto r = static_cast<double>(mechanism.integer("features"));
  return std::pow(r, mechanism.choice("scale") == "unbiased" ? -0.25 : -0.5);
}

bool is_exact(const Mechanism& mechanism) { return mechanism.choice("form") == "exact"; }

Var sketched(const Call& call, const Var& x) {
  Tape& tape = call.tape;
  const Var a = matmul(tape, x, call.options.weights[2]), b = matmul(tape, x, call.options.weights[3]);
  const double factor = sketch_factor(call.mechanism);
  return scale(tape, mul(tape, a, b), factor * factor);
}

// (sum of (q_i . k_j)^degree v_j, sum of (q_i . k_j)^degree) over the pairs that are kept.
Var power_sums(const Call& call, const Triple& x, const Pattern& pattern, int degree) {
  AttentionOptions options;
  options.causal = call.options.causal;
  options.scale = 1.0;
  return run_tiled_on(call, {x.q, x.k, with_ones(call.tape, x.v)}, options,
                      {.weight = tile::Weight::power, .pattern = pattern, .degree = degree})
      .output;
}

// Sketched pairs in all directions: by the state, or by the pairs themselves where that is less work (up to 700 tokens
// for 32 features and heads of 64).
Var all_sketched(const Call& call, const Triple& x, double one) {
  Tape& tape = call.tape;
  const std::int64_t r = x.q.dim(3), e = x.v.dim(3) + 1;
  if (x.k.dim(1) * (r + e) <= r * (r + 1) * e) return divide_by_last(tape, power_sums(call, x, {}, 2), one);
  const AttentionOptions options;
  return run_scanned({tape, square_features(tape, x.q), square_features(tape, x.k), x.v, call.mechanism, options,
                      call.queries, call.keys},
                     {.denominator = scan::Denominator::add, .denominator_eps = one})
      .output;
}

// Rows are divided by sqrt(d), so that weights are d^4 times smaller than their definition, and so is the 1 that is
// added to their sum: the same output, without numbers of 1e7.
Var body(const Call& call) {
  Tape& tape = call.tape;
  const std::vector<Var>& w = call.options.weights;
  const double d = static_cast<double>(call.q.dim(3)), one = std::pow(d, -4.0);
  const auto unit = [&](const Var& x) {
    return scale(tape, normalize(tape, x, {.kind = NormKind::layer, .eps = kNormEps, .gain = w[0], .bias = w[1]}),
                 1.0 / std::sqrt(d));
  };
  const auto [q_in, k_in] = rotated(call, call.q, call.k);
  const Var q = unit(q_in), k = unit(k_in);
  const Triple exact{q, k, call.v};
  if (is_exact(call.mechanism)) return divide_by_last(tape, power_sums(call, exact, {}, 4), one);
  const Triple sketch{sketched(call, q), sketched(call, k), call.v};
  if (!call.options.causal) return all_sketched(call, sketch, one);
  const std::int64_t block = call.mechanism.integer("block"), heads = q.dim(2);
  const Triple far{square_features(tape, sketch.q), repeat_heads(tape, square_features(tape, sketch.k), heads),
                   repeat_heads(tape, with_ones(tape, call.v), heads)};
  const Var near = power_sums(call, exact, Pattern::block_diagonal(block), 4);
  return divide_by_last(tape, add(tape, near, read_earlier_chunks(tape, far, block)), one);
}

AttentionResult run(const Call& call) { return {each_sequence_wide(call, body), {}, {}}; }

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::polysketch(problem, {!is_exact(m), m.choice("scale") == "unbiased", m.integer("block")});
}

std::vector<WeightSpec> weights(const Mechanism& mechanism, const LayerSizes& sizes) {
  const Shape sketch{sizes.d_k, mechanism.integer("features")};
  std::vector<WeightSpec> list{{.name = "gain",
                                .shape = {sizes.d_k},
                                .init = Init::ones(),
                                .axes = "d_k",
                                .meaning = "factors after the layer norm of q and k, for all heads"},
                               {.name = "shift",
                                .shape = {sizes.d_k},
                                .init = Init::zeros(),
                                .axes = "d_k",
                                .meaning = "added after the factors"}};
  if (is_exact(mechanism)) return list;
  for (const char* name : {"sketch_a", "sketch_b"})
    list.push_back({.name = name,
                    .shape = sketch,
                    .init = Init::normal(1.0),
                    .trained = false,
                    .axes = "d_k, features",
                    .meaning = "one of two standard normal matrices whose products with a row are multiplied with each "
                               "other, for all heads; the factor of the sketch comes besides"});
  return list;
}

Flops flops(const Sizes& s, const Mechanism& mechanism) {
  if (is_exact(mechanism)) return dense_flops(s, mechanism);
  const double r = static_cast<double>(mechanism.integer("features")), features = 0.5 * r * (r + 1.0);
  const double block = std::min(static_cast<double>(mechanism.integer("block")), s.n);
  const Flops local = pairwise_flops(s.causal ? 0.5 * s.n * block : 0.0, s);
  const double far = s.n * s.heads * (4.0 * features * (s.d_v + 1.0) + 8.0 * r * s.d_k);
  return {local.forward + far, local.backward + 2.0 * far};
}

}  // namespace

const MechanismKind& polysketch_kind() {
  static const MechanismKind kind{
      .name = "polysketch",
      .family = "kernel",
      .summary = "fourth powers of normalised scores, sketched so that keys and values are summed once",
      .paper = "Kacham et al. 2023, PolySketchFormer: Fast Transformers via Sketching Polynomial Kernels",
      .parameters = {{"form",
                      std::string("sketch"),
                      0,
                      0,
                      {"sketch", "exact"},
                      "random sketches drawn once, or the polynomial itself, which is quadratic"},
                     {"features", std::int64_t{32}, 8, 256, {}, "of a sketch; its state has about half their square"},
                     {"scale",
                      std::string("unbiased"),
                      0,
                      0,
                      {"unbiased", "public"},
                      "public: both matrices divided by the root of features, as in the published code"},
                     {"block", std::int64_t{256}, 1, 65536, {}, "causal: pairs in one block are exact"}},
      .features = {Feature::causal, Feature::bidirectional, Feature::padding, Feature::packed, Feature::rotary,
                   Feature::grouped, Feature::strict},
      .subquadratic = true,
      .memory = StepMemory::cache,
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea

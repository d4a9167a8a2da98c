#include <cmath>

#include "core/visit_device.h"
#include "mechanisms/kernel/chunks.h"
#include "mechanisms/kernel/square_kernels.h"
#include "mechanisms/positions.h"
#include "mechanisms/quotient.h"
#include "mechanisms/scanned.h"
#include "reference/units.h"

namespace fovea {
namespace {

constexpr double kNormEps = 1e-5;
void square_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const kernels::SquareVjp io{x, node.grad().contiguous(context), Tensor::empty(context, x.shape(), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::square_features_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dx);
}

constexpr Op kSquare{"square_features", square_backward};

// square_features(x) . square_features(y) = (x . y)^2.
Var square_features(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  const std::int64_t r = x.dim(-1);
  const kernels::Square io{x.value().contiguous(context),
                           Tensor::empty(context, x.shape().with(-1, r * (r + 1) / 2), x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::square_features<D>(context, io); });
  return tape.record(kSquare, {x}, io.y, {io.x});
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
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .rounds_freely = true,
  };
  return kind;
}

}  // namespace fovea

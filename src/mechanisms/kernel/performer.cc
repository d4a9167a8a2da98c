#include <fmt/format.h>

#include <cmath>

#include "autograd/host_stream.h"
#include "mechanisms/scanned.h"
#include "ops/features.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

constexpr double kReluEps = 1e-3;
// Of a denominator, beside features that are divided by their stabilisers. Smaller ones would make gradients overflow.
double tiny(DType wide) { return wide == DType::f64 ? 1e-290 : 1e-30; }
// e^60 times the sums over a long sequence is still a float.
constexpr double kLargestExponent = 60.0;

bool is_relu(const Mechanism& m) { return m.choice("kernel") == "relu"; }
// The modes of published code stabilise keys by a maximum over the sequence, which their epsilon keeps from cancelling.
bool is_published(const Mechanism& m) { return !is_relu(m) && m.choice("eps_mode") != "exact"; }

// Of the scores that the features stand for; twice: q and k are divided by d^(1/4) once more.
double estimated_scale(const Mechanism& m, double scale, std::int64_t d_k) {
  return m.flag("scale_twice") ? scale / std::sqrt(static_cast<double>(d_k)) : scale;
}

// The directions (1, features, d_k) of this call: those of the layer, or a fresh draw.
Tensor directions_of(const Call& call) {
  const Tensor& kept = call.options.weights[0].value();
  const std::string& redraw = call.mechanism.choice("redraw");
  const Shape shape{1, kept.dim(0), kept.dim(1)};
  if (redraw == "never" || !call.tape.training()) return kept.contiguous(call.tape.context()).reshape(shape);
  return make_weight(call.tape.context(), fmt::format("redraw.{}", next_host_stream(call.tape)), shape, kept.dtype(),
                     redraw == "iid" ? Init::normal(1.0) : Init::features());
}

// What the parts of a call share.
struct Setup {
  Tensor directions;
  FeatureOptions queries, keys;
  double least;  // denominator
};

FeatureOptions relu_map(double scale) {
  FeatureOptions map;
  map.map = FeatureMap::relu;
  map.scale = std::sqrt(scale);
  map.add = kReluEps;
  return map;
}

Setup setup_of(const Call& call) {
  const Mechanism& m = call.mechanism;
  const double scale = estimated_scale(m, scale_of(call), call.q.dim(3));
  if (!(scale > 0.0)) fail(ErrorCode::usage, "performer needs a positive scale", "scale");
  Setup setup{directions_of(call), {}, {}, tiny(wide_type(call.q.dtype()))};
  if (is_relu(m)) {
    setup.queries = setup.keys = relu_map(scale);
    return setup;
  }
  setup.queries.scale = setup.keys.scale = std::sqrt(scale);
  setup.queries.stabilizer = Stabilizer::row;
  setup.keys.subtract_norm = true;
  if (is_published(m)) {
    const double size = 1.0 / std::sqrt(static_cast<double>(setup.directions.dim(1))), eps = m.number("eps");
    for (FeatureOptions* each : {&setup.queries, &setup.keys}) {
      each->size = size;
      each->add = m.choice("eps_mode") == "inside" ? size * eps : eps;
      each->subtract_norm = each->pull_shift = true;
    }
    setup.keys.stabilizer = Stabilizer::sequence;
    setup.least = std::fmax(m.number("clamp"), setup.least);
  } else {
    // The same for all keys, it cancels; and it does not depend on later ones.
    setup.keys.largest_exponent = kLargestExponent;
  }
  return setup;
}

// The sequences of a call, or parts of them; a tape's node keeps what it needs of the options.
Call part_of(const Call& call, const AttentionOptions& options) {
  return {call.tape, call.q, call.k, call.v, call.mechanism, options, call.queries, call.keys};
}

AttentionResult run_plain(const Call& call, Setup setup) {
  setup.queries.rows = call.queries;
  setup.keys.rows = call.keys;
  Scanned scanned{.denominator = scan::Denominator::clamp, .denominator_eps = setup.least};
  if (can_make_features(call) && !setup.queries.pull_shift) {
    scanned.features = std::make_shared<FeatureMaps>(setup.queries, setup.keys, setup.directions);
    return run_scanned(call, scanned);
  }
  const Var q = features(call.tape, call.q, setup.directions, setup.queries);
  const Var k = features(call.tape, call.k, setup.directions, setup.keys);
  return run_on_features(call, {q, k}, scanned);
}

// state (sequences, heads, r, width) times factors (sequences, heads, r).
Var times_features(Tape& tape, const Var& state, const Tensor& factors) {
  const Tensor transposed = factors.transpose(0, 1).transpose(1, 2).contiguous(tape.context());
  return transpose(tape, mul(tape, transpose(tape, state, 0, 3), transposed), 0, 3);
}

// With a stabilizer for each feature.
AttentionResult run_leveled(const Call& call, Setup setup) {
  setup.queries.rows = call.queries;
  setup.keys.rows = call.keys;
  AttentionOptions options = call.options;
  const Tensor before = options.initial_state.defined() ? options.initial_state.value() : Tensor();
  const Leveled leveled =
      find_levels(call.tape.context(), call.k.value(), setup.directions, setup.keys, before, options.causal);
  if (before.defined()) options.initial_state = times_features(call.tape, options.initial_state, leveled.state_in);
  setup.keys.stabilizer = Stabilizer::level;
  setup.keys.levels = leveled.levels;
  setup.queries.levels = seen_from(leveled.levels, call.queries, call.keys);
  const Var q = features(call.tape, call.q, setup.directions, setup.queries);
  const Var k = features(call.tape, call.k, setup.directions, setup.keys);
  Scanned scanned{.denominator = scan::Denominator::clamp, .denominator_eps = setup.least};
  if (leveled.log_decay.defined()) scanned.log_decay = Var(leveled.log_decay);
  AttentionResult result = run_on_features(part_of(call, options), {q, k}, scanned);
  if (result.final_state.defined())
    result.final_state = times_features(call.tape, result.final_state, leveled.state_out);
  return result;
}

// Sequences up to the rows that need levels, and from there on. So what a row gives does not hang on later ones, nor on
// neighbours.
AttentionResult run_in_parts(const Call& call, const Setup& setup, const std::vector<std::int64_t>& above) {
  AttentionOptions first = call.options, second = call.options;
  first.final_state = true;
  Call before = part_of(call, first), after = part_of(call, second);
  for (std::size_t s = 0; s < above.size(); ++s) {
    Sequences::Rows &q = before.queries[s], &k = before.keys[s], &rest = after.queries[s], &keys = after.keys[s];
    const std::int64_t behind = k.count - above[s];
    rest.count = behind == 0 ? 0 : call.options.causal ? std::min(q.count, behind) : q.count;
    q.count -= rest.count;
    rest.begin += q.count;
    k.count = above[s];
    keys.begin += above[s];
    keys.count = behind;
  }
  const AttentionResult plain = run_plain(before, setup);
  second.initial_state = plain.final_state;
  AttentionResult result = run_leveled(after, setup);
  result.output = add(call.tape, plain.output, result.output);
  return result;
}

AttentionResult run(const Call& call) {
  Setup setup = setup_of(call);
  if (is_relu(call.mechanism) || is_published(call.mechanism)) return run_plain(call, setup);
  setup.keys.rows = call.keys;
  const std::vector<std::int64_t> above =
      rows_above(call.tape.context(), call.k.value(), setup.directions, setup.keys, call.options.causal);
  bool none = true, all = true;
  for (std::size_t s = 0; s < above.size(); ++s) {
    none = none && above[s] == 0;
    all = all && above[s] == call.keys[s].count;
  }
  if (all) return run_plain(call, setup);
  return none ? run_leveled(call, setup) : run_in_parts(call, setup, above);
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  using Epsilon = reference::Performer::Epsilon;
  const std::string& mode = m.choice("eps_mode");
  return reference::performer(problem, {.features = m.integer("features"),
                                        .relu = is_relu(m),
                                        .epsilon = mode == "exact"    ? Epsilon::exact
                                                   : mode == "inside" ? Epsilon::inside
                                                                      : Epsilon::outside,
                                        .eps = m.number("eps"),
                                        .clamp = m.number("clamp"),
                                        .scale_twice = m.flag("scale_twice")});
}

Flops flops(const Sizes& s, const Mechanism& m) {
  const auto r = static_cast<double>(m.integer("features"));
  const Flops scan = scan_flops({s.n, s.heads, r, s.d_v, s.causal}, m);
  const double products = 4.0 * s.n * s.heads * r * s.d_k;  // of q and k with the directions
  return {scan.forward + products, scan.backward + products};
}

bool lacks(const Mechanism& m, Feature feature) {
  const bool in_order =
      feature == Feature::causal || feature == Feature::strict || feature == Feature::step || feature == Feature::state;
  return in_order && is_published(m);
}

std::vector<WeightSpec> weights(const Mechanism& m, const LayerSizes& sizes) {
  return {{.name = "directions",
           .shape = {m.integer("features"), sizes.d_k},
           .init = Init::features(),
           .trained = false,
           .axes = "features, d_k",
           .meaning = "w_l, for all heads: orthogonal in blocks of d_k, as long as normal vectors"}};
}

}  // namespace

const MechanismKind& performer_kind() {
  static const MechanismKind kind{
      .name = "performer",
      .family = "kernel",
      .summary = "softmax estimated with positive random features of orthogonal directions (FAVOR+)",
      .paper = "Choromanski et al. 2021, Rethinking Attention with Performers",
      .parameters =
          {{"features", std::int64_t{256}, 1, 65536, {}, "random features of a head"},
           {"kernel", std::string("softmax"), 0, 0, {"softmax", "relu"}, "relu: max(w x, 0) + 0.001, not an estimate"},
           {"eps_mode",
            std::string("exact"),
            0,
            0,
            {"exact", "inside", "outside"},
            "exact: no eps; published: r^(-1/2) (e^u + eps), or r^(-1/2) e^u + eps"},
           {"eps", 1e-4, 0.0, 1.0, {}, "added to the features in the published modes"},
           {"clamp", 0.0, 0.0, 1.0, {}, "least denominator in the published modes; 0.01 in some"},
           {"scale_twice",
            false,
            0,
            0,
            {},
            "scores are divided by d in all, as in the Long Range Arena code of Skyformer"},
           {"redraw",
            std::string("never"),
            0,
            0,
            {"never", "orthogonal", "iid"},
            "fresh directions for every forward pass of training, of this kind",
            true}},
      .features = kRecurrent.with(Feature::scale),
      .lacks = lacks,
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .draws = [](const Mechanism& m) { return m.choice("redraw") != "never"; },
  };
  return kind;
}

}  // namespace fovea

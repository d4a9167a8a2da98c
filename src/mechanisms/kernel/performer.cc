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

struct Maps {
  FeatureOptions queries, keys;
};

Maps maps_of(const Mechanism& m, const Tensor& directions, double scale) {
  FeatureOptions map;
  map.scale = std::sqrt(scale);
  if (is_relu(m)) {
    map.map = FeatureMap::relu;
    map.add = kReluEps;
    return {map, map};
  }
  Maps maps{map, map};
  maps.queries.stabilizer = Stabilizer::row;
  maps.keys.subtract_norm = true;
  if (is_published(m)) {
    const double size = 1.0 / std::sqrt(static_cast<double>(directions.dim(1))), eps = m.number("eps");
    for (FeatureOptions* each : {&maps.queries, &maps.keys}) {
      each->size = size;
      each->add = m.choice("eps_mode") == "inside" ? size * eps : eps;
      each->subtract_norm = each->pull_shift = true;
    }
    maps.keys.stabilizer = Stabilizer::sequence;
  } else {
    // The same for all keys, it cancels; and it does not depend on later ones.
    maps.keys.largest_exponent = kLargestExponent;
  }
  return maps;
}

// Keys of a carried state are stabilised as it is.
Rescue rescue_of(const Call& call, const Tensor& directions, const FeatureOptions& keys) {
  const bool is_exact = keys.map == FeatureMap::exponential && keys.stabilizer == Stabilizer::fixed;
  if (!is_exact || call.options.initial_state.defined()) return {};
  return find_rescue(call.tape.context(), call.k.value(), directions, keys, call.options.causal);
}

// state (sequences, heads, r, width) times factors (sequences, heads).
Var times_heads(Tape& tape, const Var& state, const Tensor& factors) {
  const auto turned = [&](const Var& x) { return transpose(tape, transpose(tape, x, 0, 2), 1, 3); };
  return turned(mul(tape, turned(state), factors));
}

AttentionResult run(const Call& call) {
  const Tensor directions = directions_of(call);
  const double scale = estimated_scale(call.mechanism, scale_of(call), call.q.dim(3));
  if (!(scale > 0.0)) fail(ErrorCode::usage, "performer needs a positive scale", "scale");
  Maps maps = maps_of(call.mechanism, directions, scale);
  maps.queries.rows = call.queries;
  maps.keys.rows = call.keys;
  const Rescue rescue = rescue_of(call, directions, maps.keys);
  if (rescue.shifts.defined()) {
    maps.keys.stabilizer = Stabilizer::given;
    maps.keys.shifts = rescue.shifts;
  }
  const Var q = features(call.tape, call.q, directions, maps.queries);
  const Var k = features(call.tape, call.k, directions, maps.keys);
  const double least =
      std::fmax(is_published(call.mechanism) ? call.mechanism.number("clamp") : 0.0, tiny(wide_type(call.q.dtype())));
  Scanned scanned{.denominator = scan::Denominator::clamp, .denominator_eps = least};
  if (rescue.log_decay.defined()) scanned.log_decay = Var(rescue.log_decay);
  AttentionResult result = run_on_features(call, {q, k}, scanned);
  if (result.final_state.defined() && rescue.state_scale.defined())
    result.final_state = times_heads(call.tape, result.final_state, rescue.state_scale);
  return result;
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

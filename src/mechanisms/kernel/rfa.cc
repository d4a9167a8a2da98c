#include <fmt/format.h>

#include <cmath>

#include "autograd/host_stream.h"
#include "core/visit_device.h"
#include "mechanisms/compose.h"
#include "mechanisms/kernel/gate_mass_kernels.h"
#include "mechanisms/scanned.h"
#include "ops/features.h"
#include "ops/sequence.h"
#include "reference/kernel.h"

namespace fovea {
namespace {

bool is_gated(const Mechanism& m) { return m.flag("gate"); }
double size_of_features(const Mechanism& m) {
  return m.number("size") > 0.0 ? m.number("size") : 1.0 / std::sqrt(static_cast<double>(m.integer("features")));
}

// saved: the logs of the products of all gates so far, (b, n_k, kv_heads).
void mass_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& kept = node.saved[0];
  const kernels::InverseMassPull io{kept, node.grad().contiguous(context),
                                    Tensor::zeros(context, kept.shape(), kept.dtype()),
                                    &std::any_cast<const kernels::GateMass&>(node.attributes)};
  visit_device(context, io, [&]<Device D>() { kernels::inverse_gate_mass_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.d_kept);
}

constexpr Op kMass{"inverse_gate_mass", mass_backward};

// 1 / (1 - the product of all gates up to the row): the weights of a row sum to that product's complement.
Var inverse_masses(const Call& call, const Var& log_gate) {
  Tape& tape = call.tape;
  const Context& context = tape.context();
  const Var kept = cumsum(tape, log_gate, key_sequences(call));
  kernels::GateMass mass{call.queries, call.keys};
  const kernels::InverseMass io{kept.value().contiguous(context),
                                Tensor::empty(context, {call.q.dim(0), call.q.dim(1), call.q.dim(2)}, kept.dtype()),
                                &mass};
  visit_device(context, io, [&]<Device D>() { kernels::inverse_gate_mass<D>(context, io); });
  return tape.record(kMass, {kept}, io.out, {io.kept}, std::move(mass));
}

// What the gate makes of a call: weights of the rows of features, and the decay.
struct Gate {
  Var queries, keys, log_decay;
};

Gate gate_of(const Call& call) {
  if (!is_gated(call.mechanism)) return {};
  Tape& tape = call.tape;
  const std::vector<Var>& weights = call.options.weights;
  const Var x = cast(tape, fill_padding(tape, call.options.input, key_sequences(call)), weights[2].dtype());
  const Var z = linear(tape, x, weights[2], weights[3]);
  const Var log_gate = log_sigmoid(tape, z);
  return {inverse_masses(call, log_gate), activate(tape, scale(tape, z, -1.0), Activation::sigmoid), log_gate};
}

Tensor directions_of(const Call& call) {
  const Tensor& kept = call.options.weights[0].value();
  if (call.mechanism.choice("redraw") == "never" || !call.tape.training()) return kept;
  return make_weight(call.tape.context(), fmt::format("redraw.{}", next_host_stream(call.tape)), kept.shape(),
                     kept.dtype(), Init::normal(1.0));
}

AttentionResult run(const Call& call) {
  const Mechanism& m = call.mechanism;
  const Tensor directions = directions_of(call);
  const Gate gate = gate_of(call);
  FeatureOptions map{.map = FeatureMap::waves,
                     .scale = 1.0 / m.number("tau"),
                     .unit = true,
                     .size = size_of_features(m),
                     .gain = call.options.weights[1],
                     .weight = gate.queries,
                     .rows = call.queries};
  const Var q = features(call.tape, call.q, directions, map);
  map.weight = gate.keys;
  map.rows = call.keys;
  const Var k = features(call.tape, call.k, directions, map);
  return run_on_features(
      call, {q, k},
      {.denominator = scan::Denominator::clamp, .denominator_eps = m.number("eps"), .log_decay = gate.log_decay});
}

reference::Result define(const reference::Problem& problem, const Mechanism& m) {
  return reference::random_waves(problem, {.features = m.integer("features"),
                                           .tau = m.number("tau"),
                                           .eps = m.number("eps"),
                                           .size = m.number("size"),
                                           .gate = is_gated(m)});
}

Flops flops(const Sizes& s, const Mechanism& m) {
  const auto r = static_cast<double>(m.integer("features"));
  const Flops scan = scan_flops({s.n, s.heads, 2.0 * r, s.d_v, s.causal}, m);
  const double products = 4.0 * s.n * s.heads * r * s.d_k;
  return {scan.forward + products, scan.backward + products};
}

// The mass of the gates is not part of a state, and a gate has a direction in time.
bool lacks(const Mechanism& m, Feature feature) {
  return is_gated(m) && (feature == Feature::bidirectional || feature == Feature::state || feature == Feature::step);
}

bool spares_input(const Mechanism& m) { return !is_gated(m); }

std::vector<WeightSpec> weights(const Mechanism& m, const LayerSizes& sizes) {
  std::vector<WeightSpec> specs{{.name = "directions",
                                 .shape = {sizes.kv_heads, m.integer("features"), sizes.d_k},
                                 .init = Init::normal(1.0),
                                 .trained = false,
                                 .axes = "kv_heads, features, d_k",
                                 .meaning = "standard normal directions of a kv head, for its queries too"},
                                {.name = "sigma",
                                 .shape = {sizes.kv_heads, sizes.d_k},
                                 .init = Init::ones(),
                                 .axes = "kv_heads, d_k",
                                 .meaning = "factors of the channels of q and k before the directions"}};
  if (is_gated(m)) {
    specs.push_back({.name = "forget.weight",
                     .shape = {sizes.width, sizes.kv_heads},
                     .init = Init::xavier(std::max<std::int64_t>(1, sizes.width), sizes.kv_heads),
                     .decay = true,
                     .axes = "width, kv_heads",
                     .meaning = "W of the gate sigmoid(x W + b) of a kv head; 1 keeps everything"});
    specs.push_back({.name = "forget.bias",
                     .shape = {sizes.kv_heads},
                     .init = Init::zeros(),
                     .axes = "kv_heads",
                     .meaning = "b of the gate"});
  }
  return specs;
}

}  // namespace

const MechanismKind& rfa_kind() {
  static const MechanismKind kind{
      .name = "rfa",
      .family = "kernel",
      .summary = "softmax of cosines estimated with sines and cosines of random projections, optionally gated",
      .paper = "Peng et al. 2021, Random Feature Attention",
      .parameters = {{"features", std::int64_t{64}, 16, 65536, {}, "random projections of a head, two features each"},
                     {"tau", 1.0, 1e-3, 1e3, {}, "root of the temperature"},
                     {"gate", false, 0, 0, {}, "forget the past by a gate of the layer's input; causal only"},
                     {"size", 0.0, 0.0, 1e3, {}, "factor of the features; 0: 1 / sqrt(features); copies use 0.1"},
                     {"eps", 1e-2, 1e-12, 1e3, {}, "least denominator; copies use 0.1 or 1"},
                     {"redraw",
                      std::string("never"),
                      0,
                      0,
                      {"never", "forward"},
                      "fresh projections for every forward pass of training",
                      true}},
      .features = kRecurrent,
      .lacks = lacks,
      .subquadratic = true,
      .step = state_step(),
      .run = run,
      .reference = define,
      .flops = flops,
      .weights = weights,
      .needs_input = true,
      .spares_input = spares_input,
      .draws = [](const Mechanism& m) { return m.choice("redraw") != "never"; },
  };
  return kind;
}

}  // namespace fovea

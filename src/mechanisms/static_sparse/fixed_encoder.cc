#include "mechanisms/compose.h"
#include "mechanisms/static_sparse/fixed_heads.h"
#include "mechanisms/tiled.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

// The given heads of a call: of a causal one only those that do not look ahead. One head always learns.
std::vector<GivenHead> given_heads(const Mechanism& mechanism, std::int64_t heads, bool causal) {
  using enum GivenHead;
  std::vector<GivenHead> given{current, previous, next, left, right, end, start};
  if (causal) given = {current, previous, left};
  const std::int64_t count = std::min({mechanism.integer("fixed"), heads - 1, std::ssize(given)});
  given.resize(static_cast<std::size_t>(count));
  return given;
}

AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  const std::int64_t heads = call.q.dim(2);
  const std::string& edge = call.mechanism.choice("edge");
  const GivenHeads given{given_heads(call.mechanism, heads, call.options.causal), edge == "self"   ? RowEdge::self
                                                                                  : edge == "zero" ? RowEdge::zero
                                                                                                   : RowEdge::first};
  const std::int64_t first = std::ssize(given.heads);
  if (first == 0) return run_tiled(call, {});
  const auto learned = [&](const Var& x) { return slice(tape, repeat_heads(tape, x, heads), 2, first, heads); };
  const Var rest = run_tiled({tape, learned(call.q), learned(call.k), learned(call.v), call.mechanism, call.options,
                              call.queries, call.keys},
                             {})
                       .output;
  return {concat(tape, std::vector<Var>{apply_given(call, given), rest}, 2), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  const std::string& edge = mechanism.choice("edge");
  return reference::fixed_encoder(problem, mechanism.integer("fixed"),
                                  edge == "self"   ? reference::Edge::self
                                  : edge == "zero" ? reference::Edge::zero
                                                   : reference::Edge::first);
}

// The learned heads see all pairs; a given one needs three operations for each value.
Flops flops(const Sizes& s, const Mechanism& mechanism) {
  const double given = static_cast<double>(given_heads(mechanism, static_cast<std::int64_t>(s.heads), s.causal).size());
  Sizes learned = s;
  learned.heads = s.heads - given;
  const Flops rest = dense_flops(learned, mechanism);
  const double sums = 3.0 * given * s.n * s.d_v;
  return {rest.forward + sums, rest.backward + sums};
}

}  // namespace

const MechanismKind& fixed_encoder_kind() {
  static const MechanismKind kind{
      .name = "fixed-encoder",
      .family = "static sparse",
      .summary = "up to seven heads with given weights (itself, its neighbours, contexts, ends), the others learned",
      .paper = "Raganato et al. 2020, Fixed Encoder Self-Attention Patterns in Transformer-Based Machine Translation",
      .parameters =
          {{"fixed",
            std::int64_t{7},
            0,
            7,
            {},
            "heads with given weights: current, previous, next, left, right, end, start; one is always learned"},
           {"edge",
            std::string("self"),
            0,
            0,
            {"self", "zero", "first"},
            "what a row reads whose pattern has no token: itself, nothing, the first token"}},
      .features = {Feature::scale, Feature::causal, Feature::bidirectional, Feature::cross, Feature::padding,
                   Feature::packed, Feature::rotary, Feature::step, Feature::grouped, Feature::strict},
      .subquadratic = false,
      .step = cached_step(),
      .run = run,
      .reference = define,
      .flops = flops,
  };
  return kind;
}

}  // namespace fovea

#include "mechanisms/quotient.h"
#include "mechanisms/weights/weights_kind.h"

namespace fovea {
namespace {

int degree_of(const Mechanism& mechanism) { return mechanism.choice("order") == "4" ? 4 : 2; }

// A column of ones among the values collects the sum of the weights.
AttentionResult run(const Call& call) {
  Tape& tape = call.tape;
  Call extended = call;
  extended.v = with_ones(tape, call.v);
  const Var sums = run_tiled(extended, {.weight = tile::Weight::taylor,
                                        .pattern = Pattern::full(),
                                        .degree = degree_of(call.mechanism),
                                        .wide = true})
                       .output;
  return {cast(tape, divide_by_last(tape, sums), call.q.dtype()), {}, {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::averaged(scored(problem, mechanism), reference::Weights::taylor, {.degree = degree_of(mechanism)});
}

// Dropout would drop the sum of the weights as well.
bool lacks(const Mechanism& mechanism, Feature feature) {
  return feature == Feature::dropout || score_lacks(mechanism, feature);
}

}  // namespace

const MechanismKind& taylor_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "taylor",
      .summary = "a Taylor polynomial in place of the exponential of softmax",
      .paper = "de Brebisson and Vincent 2016, An Exploration of Softmax Alternatives",
      .parameters = {{"order", std::string("2"), 0, 0, {"2", "4"}, "of the polynomial; odd ones go negative"}},
      .lacks = lacks,
      .run = run,
      .reference = define,
  });
  return kind;
}

}  // namespace fovea

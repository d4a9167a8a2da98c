#include <cmath>

#include "mechanisms/compose.h"
#include "mechanisms/weights/weights_kind.h"

namespace fovea {
namespace {

bool by_length(const Mechanism& mechanism) { return mechanism.choice("shift") == "log-n"; }

AttentionResult run(const Call& call) {
  const auto weigh = [](const Call& part, double offset) {
    return run_tiled(part, {.weight = tile::Weight::sigmoid, .pattern = Pattern::full(), .offset = offset});
  };
  const double offset = call.mechanism.number("offset");
  if (!by_length(call.mechanism)) return weigh(call, offset);
  return {each_sequence(call,
                        [&](const Call& part) {
                          return weigh(part, offset - std::log(static_cast<double>(part.k.dim(1)))).output;
                        }),
          {},
          {}};
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  double offset = mechanism.number("offset");
  if (by_length(mechanism)) offset -= std::log(static_cast<double>(problem.n_k));
  return reference::pairwise(scored(problem, mechanism), reference::Weights::sigmoid, {.offset = offset});
}

// Bias, masks and dropout go by rows of the whole batch, which sequences cut out of it do not have; a step does not
// know the final length.
bool lacks(const Mechanism& mechanism, Feature feature) {
  if (score_lacks(mechanism, feature)) return true;
  return by_length(mechanism) && (feature == Feature::bias || feature == Feature::dropout || feature == Feature::step ||
                                  feature == Feature::strict);
}

}  // namespace

const MechanismKind& sigmoid_kind() {
  static const MechanismKind kind = weights_kind({
      .name = "sigmoid",
      .summary = "the sigmoid of each score as its weight: keys do not compete",
      .paper = "Ramapuram et al. 2024, Theory, Analysis, and Best Practices for Sigmoid Self-Attention",
      .parameters =
          {{"offset", 0.0, -100.0, 100.0, {}, "added to every score"},
           {"shift", std::string("none"), 0, 0, {"none", "log-n"}, "log-n: also subtract the log of the length"}},
      .lacks = lacks,
      .run = run,
      .reference = define,
  });
  return kind;
}

}  // namespace fovea

#pragma once

#include <span>

#include "mechanisms/kind.h"

// How a pair is scored: the parameter `score` of the dense mechanisms, and what it makes of q and k before the tiled
// engine multiplies them.
namespace fovea {

struct ScoreKind {
  std::string_view name, summary;
};
std::span<const ScoreKind> score_kinds();

ParameterSpec score_parameter();
std::vector<WeightSpec> score_weights(const Mechanism& mechanism, const LayerSizes& sizes);
bool is_scaled_dot(const Mechanism& mechanism);  // the score that needs nothing made of q and k
bool score_lacks(const Mechanism& mechanism, Feature feature);

// What the engine multiplies, once rotated and rounded to the type of the call: scale q . k.
struct Scored {
  Var q, k;
  double scale;
};
Scored scored(const Call& call);

// The same for the definition.
reference::Problem scored(const reference::Problem& problem, const Mechanism& mechanism);

}  // namespace fovea

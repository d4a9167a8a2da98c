#pragma once

#include "mechanisms/kind.h"

// How a pair is scored: the parameter `score` of the dense mechanisms, and what it makes of q and k before the tiled
// engine multiplies them.
namespace fovea {

ParameterSpec score_parameter();
std::vector<WeightSpec> score_weights(const Mechanism& mechanism, const LayerSizes& sizes);
bool score_lacks(const Mechanism& mechanism, Feature feature);

// What the engine multiplies: scale q . k.
struct Scored {
  Var q, k;
  double scale;
};
Scored scored(const Call& call);

// The same for the definition.
reference::Problem scored(const reference::Problem& problem, const Mechanism& mechanism);

}  // namespace fovea

#pragma once

#include <utility>

#include "mechanisms/score.h"
#include "mechanisms/tiled.h"

// Mechanisms that weigh every pair by its score, made in any of the ways that `score` names.
namespace fovea {

// What one of them has of its own.
struct WeightsKind {
  std::string_view name, summary, paper;
  std::vector<ParameterSpec> parameters = {};  // besides the score
  decltype(MechanismKind::lacks) lacks = score_lacks;
  decltype(MechanismKind::run) run;
  decltype(MechanismKind::reference) reference;
  decltype(MechanismKind::weights) weights = score_weights;
  bool chooses = false;
};

inline MechanismKind weights_kind(WeightsKind own) {
  own.parameters.insert(own.parameters.begin(), score_parameter());
  return {
      .name = own.name,
      .family = "weights",
      .summary = own.summary,
      .paper = own.paper,
      .parameters = std::move(own.parameters),
      .features = kPairwiseNoLse,
      .lacks = own.lacks,
      .subquadratic = false,
      .step = cached_step(window_start),
      .run = own.run,
      .reference = own.reference,
      .flops = dense_flops,
      .weights = own.weights,
      .chooses = own.chooses,
  };
}

}  // namespace fovea

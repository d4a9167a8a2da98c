#pragma once

#include <utility>

#include "mechanisms/static_sparse/sparse.h"

// Mechanisms that are a softmax over a set of pairs, which is given by its parts.
namespace fovea {

template <PartsOf parts>
AttentionResult run_set(const Call& call) {
  return run_parts(call, parts);
}

template <PartsOf parts>
Flops set_flops(const Sizes& sizes, const Mechanism& mechanism) {
  return parts_flops(sizes, mechanism, parts);
}

// What one of them has of its own, besides the parts.
struct SetKind {
  std::string_view name, summary, paper;
  std::vector<ParameterSpec> parameters;
  bool subquadratic = true;
  decltype(StepForm::first_needed) first_needed = nullptr;
  decltype(MechanismKind::run) run = nullptr;  // null: the softmax over the parts is all there is
  decltype(MechanismKind::reference) reference;
  bool log_factor = false;
  std::string_view picture;
};

template <PartsOf parts>
MechanismKind set_kind(SetKind own) {
  return {
      .name = own.name,
      .family = "static sparse",
      .summary = own.summary,
      .paper = own.paper,
      .parameters = std::move(own.parameters),
      .features = kPairwise,
      .subquadratic = own.subquadratic,
      .step = cached_step(own.first_needed),
      .run = own.run != nullptr ? own.run : run_set<parts>,
      .reference = own.reference,
      .flops = set_flops<parts>,
      .log_factor = own.log_factor,
      .picture = own.picture,
  };
}

}  // namespace fovea

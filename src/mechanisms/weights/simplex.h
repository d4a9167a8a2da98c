#pragma once

#include "mechanisms/weights/weights_kind.h"
#include "reference/row_rules.h"

// Weights that are the point of the simplex which a rule finds for a row of scores, without settings of their own.
namespace fovea {

template <tile::RowRuleKind kRule>
AttentionResult run_simplex(const Call& call) {
  return run_tiled(call, {.pattern = Pattern::full(), .rule = tile::RowRule{.kind = kRule}});
}

template <reference::Row (*weights_of)(const reference::Row& scores)>
reference::Result define_simplex(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::by_row(scored(problem, mechanism),
                           [](const reference::Row& scores, std::int64_t) { return weights_of(scores); });
}

struct SimplexTexts {
  std::string_view name, summary, paper;
};
template <tile::RowRuleKind kRule, reference::Row (*weights_of)(const reference::Row& scores)>
MechanismKind simplex_kind(const SimplexTexts& texts) {
  return weights_kind({
      .name = texts.name,
      .summary = texts.summary,
      .paper = texts.paper,
      .run = run_simplex<kRule>,
      .reference = define_simplex<weights_of>,
  });
}

}  // namespace fovea

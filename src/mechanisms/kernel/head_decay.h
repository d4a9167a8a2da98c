#pragma once

#include "mechanisms/scanned.h"

namespace fovea {

// Of what all heads have, what those of the call have.
inline std::vector<double> of_heads(const Call& call, const std::vector<double>& all) {
  const auto first = all.begin() + call.options.heads.first;
  return {first, first + call.q.dim(2)};
}

// Runs the call on the scan engine with a decay for every head of q, whose keys and values are repeated for it. States
// are (sequences, kv_heads, group d_k, d_v): those of the query heads of a kv head stand one below the other.
AttentionResult run_with_decays(const Call& call, const Scanned& scanned);

}  // namespace fovea

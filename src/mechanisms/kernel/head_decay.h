#pragma once

#include "mechanisms/scanned.h"

namespace fovea {

// Runs the call on the scan engine with a decay for every head of q, whose keys and values are repeated for it. States
// are (sequences, kv_heads, group d_k, d_v): those of the query heads of a kv head stand one below the other.
AttentionResult run_with_decays(const Call& call, const Scanned& scanned);

}  // namespace fovea

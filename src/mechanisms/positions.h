#pragma once

#include "mechanisms/kind.h"

namespace fovea {

// Positions i32 (b, n) within each sequence, 0 in padding; the last query stands where the last key does.
Tensor query_positions(const Call& call);
Tensor key_positions(const Call& call);

// q and k rotated by their positions (q and k as they are when the call has no rotary): (q', k').
std::pair<Var, Var> rotated(const Call& call, const Var& q, const Var& k);

}  // namespace fovea

#pragma once

#include "mechanisms/compose.h"

namespace fovea {

// o_i = sum of (q_i . k_j) v_j over the keys of all chunks before that of row i: q, k (b, n, heads, d) and v (b, n,
// heads, e) -> (b, n, heads, e). Chunks of `chunk` rows; sums of k v^T are made once for each, and added up.
Var read_earlier_chunks(Tape& tape, const Triple& x, std::int64_t chunk);

}  // namespace fovea

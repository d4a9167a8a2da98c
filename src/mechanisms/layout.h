#pragma once

#include "mechanisms/kind.h"
#include "ops/sequence.h"

namespace fovea {

// An output of the engine: zero where a row belongs to no sequence.
Tensor output_like(const Context& context, const Shape& shape, DType dtype, const std::vector<Sequences::Rows>& rows);
// The same for the gradient of an input, in place where that is possible.
Tensor gradient_like(const Tape& tape, const std::shared_ptr<Slot>& slot, const Tensor& input,
                     const std::vector<Sequences::Rows>& rows);

// Positions i32 (b, n) within each sequence, 0 in padding; the last query stands where the last key does.
Tensor query_positions(const Call& call);
Tensor key_positions(const Call& call);

// q and k rotated by their positions (q and k as they are when the call has no rotary): (q', k').
std::pair<Var, Var> rotated(const Call& call, const Var& q, const Var& k);

// Normalises (b, n, heads, d) over heads and d together.
Var normalize_heads(Tape& tape, const Var& x, NormKind kind, double eps);

}  // namespace fovea

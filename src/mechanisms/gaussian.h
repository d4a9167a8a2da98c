#pragma once

#include "mechanisms/kind.h"

namespace fovea {

// Rows (b, n, heads, d) with columns appended so that the product of a query's row with a key's is
// q . k - |q|^2 / 2 - |k|^2 / 2 = -|q - k|^2 / 2. In 16-bit types half the square is two columns, the second holding
// what rounding took from the first: at d 64 one column alone would be off by 2% of the weight.
// Rows that belong to no sequence are zero. A sample is a query without its own square, which cancels where weights are
// divided by others of the same sample: beside it, the rest would be rounded.
enum class Side : std::uint8_t { query, key, sample };
Var gaussian_features(Tape& tape, const Var& x, Side side, const std::vector<Sequences::Rows>& rows);
// The same for whole sequences.
Var gaussian_features(Tape& tape, const Var& x, Side side);

// The scale of a call whose weights are e^(-scale |q - k|^2 / 2). A negative one would make them grow with the
// distance, out of the range of any type: it is refused.
double gaussian_scale(const Call& call);

}  // namespace fovea

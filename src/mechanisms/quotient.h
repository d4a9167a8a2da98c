#pragma once

#include "fovea/autograd.h"

// Averages out of sums: the values get a column of ones, whose sum divides the others.
namespace fovea {

// x (..., d) -> (..., d + 1).
Var with_ones(Tape& tape, const Var& x);

// x (..., d + 1) -> (..., d): x[..., :d] / (x[..., d] + add); a denominator of 0 gives 0.
Var divide_by_last(Tape& tape, const Var& x, double add = 0.0);

}  // namespace fovea

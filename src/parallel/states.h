#pragma once

#include "fovea/autograd.h"
#include "parallel/division.h"

namespace fovea::divided {

// The state that a rank's rows begin with, of what every rank's rows make of an empty one: `state` (sequences, ...)
// and, where states fade, `decay`, what they are multiplied with on their way over these rows. Causal: what the ranks
// before left, S_r = D_{r-1} S_{r-1}' + S_{r-1} and so on; else the states of all others. One state from each rank to
// each other, whatever the lengths; the gradient goes back the same way.
Var state_before(Tape& tape, const Var& state, const Var& decay, const Division& division, bool causal);

}  // namespace fovea::divided

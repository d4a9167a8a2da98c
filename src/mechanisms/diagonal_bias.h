#pragma once

#include "mechanisms/kind.h"

// A bias that depends on the distance of a pair alone, as the tiled engine reads it.
namespace fovea {

// (b or 1, heads or 1, 2 L - 1) by key position - query position, dense and by query position - key position instead.
Var reversed_distances(Tape& tape, const Var& bias);

}  // namespace fovea

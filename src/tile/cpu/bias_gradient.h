#pragma once

#include "fovea/context.h"
#include "tile/contract.h"

namespace fovea::tile {

// Which axes of the bias gradient collect several pairs. Units that share elements must follow one another.
struct BiasSharing {
  bool queries = false, keys = false, units = false;
  bool any() const { return queries || keys || units; }
};
BiasSharing sharing_of(const Problem& problem, const BiasArray<void*>& d_bias);

// Zeroes what will be added to, or, when every element has one pair, what the plans leave out.
void clear_bias_gradient(const Context& context, const Problem& problem, const BiasArray<void*>& d_bias);

}  // namespace fovea::tile

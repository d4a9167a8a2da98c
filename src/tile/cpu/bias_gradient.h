#pragma once

#include "fovea/context.h"
#include "tile/contract.h"

namespace fovea::tile {

// Which axes of the bias gradient collect several pairs. Units that share elements must follow one another.
struct BiasSharing {
  bool queries = false, keys = false, units = false;
  bool heads = false;  // those of one unit
  bool any() const { return queries || keys || units; }
  // Do the turns of blocks (see turns.h) put every sum in order? One over the keys is in order as long as the pairs of
  // a single query of a single head go into it.
  bool is_ordered_by_turns() const { return !keys || (!queries && !heads); }
};
BiasSharing sharing_of(const Problem& problem, const BiasArray<void*>& d_bias);

// Zeroes what will be added to, or, when every element has one pair, what the plans leave out.
void clear_bias_gradient(const Context& context, const Problem& problem, const BiasArray<void*>& d_bias);

}  // namespace fovea::tile

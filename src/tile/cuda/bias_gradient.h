#pragma once

#include <cstdint>

#include "tile/contract.h"
#include "tile/cuda/schedule.h"

namespace fovea::tile::cuda {

// A block owns the elements of d_bias it adds to, and takes the pairs that belong to them one after the other, so that
// every sum has a fixed order. Which pairs share elements decides who owns them.
enum class BiasOwner : std::uint8_t {
  tile,      // every pair of a head has its own element: query tiles, each of their key tiles in turn
  queries,   // the keys share: query tiles, sums over all their keys
  keys,      // the queries share: key tiles
  head,      // all pairs share: one block
  diagonal,  // pairs of the same distance: tiles along a diagonal; every other one at a time, since neighbours overlap
};
BiasOwner owner_of(const BiasArray<void*>& bias);

// May the pieces be done at the same time?
bool pieces_are_apart(const BiasArray<void*>& bias, const Schedule& schedule);

struct BiasWork {
  BiasOwner owner;
  bool sums_heads;      // the heads share as well
  std::int32_t parity;  // of the diagonal
  std::int32_t query_blocks, key_blocks;
};

}  // namespace fovea::tile::cuda

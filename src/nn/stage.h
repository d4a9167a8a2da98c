#pragma once

#include "dist/group.h"

namespace fovea::nn {

// Which layers of a model a rank has, where ranks have them in stages. All layers are cut into chunks, runs of
// neighbours; chunk c is that of rank c % ranks. One chunk: a rank has all layers.
struct Stage {
  std::int64_t chunks = 1, ranks = 1, rank = 0;

  bool has(std::int64_t chunk) const { return chunk % ranks == rank; }
  bool first() const { return has(0); }          // it has what comes before the layers
  bool last() const { return has(chunks - 1); }  // it has what comes after them
  // Layers [begin(c), begin(c + 1)) are in chunk c.
  std::int64_t begin(std::int64_t layers, std::int64_t chunk) const { return dist::part_begin(layers, chunks, chunk); }
};

}  // namespace fovea::nn

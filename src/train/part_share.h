#pragma once

#include <span>
#include <vector>

#include "data/prefetch.h"
#include "dist/mesh.h"

namespace fovea {

// Which parts of a batch a rank runs: [first, first + count) of all. Parts are what a batch is cut into whatever the
// ranks (train.accumulation), and draw their dropout by their number: so a step is the same on any mesh.
struct PartShare {
  std::int64_t all = 1, first = 0, count = 1;

  // Refuses more ranks than parts.
  static PartShare of(std::int64_t parts, const dist::Mesh& mesh);

  BatchShare batches() const { return {all, first, count}; }
};

// `columns` numbers of each part that this rank ran; gives those of all parts, in their order.
std::vector<double> gather_parts(const dist::Mesh& mesh, std::int64_t parts, std::span<const double> own,
                                 std::size_t columns);

}  // namespace fovea

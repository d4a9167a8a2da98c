#pragma once

#include "mechanisms/kind.h"

namespace fovea {

// Heads with given weights, in the order of an encoder's heads.
enum class GivenHead : std::uint8_t { current, previous, next, left, right, end, start };
// What a row reads that has nothing to read: itself, nothing, the first token.
enum class RowEdge : std::uint8_t { self, zero, first };

struct GivenHeads {
  std::vector<GivenHead> heads;
  RowEdge edge;
};

// Applies the given weights of the first heads to v: (b, n_q, given, d_v). O(n d) for every head.
Var apply_given(const Call& call, const GivenHeads& given);

}  // namespace fovea

#pragma once

#include <algorithm>

#include "reference/attention.h"

namespace fovea::reference {

inline constexpr double kUnitEps = 1e-12;  // under the root of a key's mean square

struct Hashing {
  std::int64_t rounds, chunk, directions;
  bool across, correct, root;

  // Two buckets for every chunk of n tokens, where there are so many directions.
  std::int64_t directions_for(std::int64_t n) const {
    return std::clamp((n + chunk - 1) / chunk, std::int64_t{1}, directions);
  }
};
// Token i reads j when, in some round, j lies in its chunk of the sorted order or in the one before; itself only when
// it reads nobody else. Tokens are hashed by their keys. Weights: rotations (rounds, d_k, directions).
Result reformer(const Problem& given, const Hashing& how);

}  // namespace fovea::reference

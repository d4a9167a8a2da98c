#pragma once

#include "reference/attention.h"

namespace fovea::reference {

struct Hashing {
  std::int64_t rounds, chunk, directions;
  bool across, correct, root;
};
// Token i reads j when, in some round, j lies in its chunk of the sorted order or in the one before; itself only when
// it reads nobody else. Tokens are hashed by their keys. Weights: rotations (rounds, d_k, directions).
Result reformer(const Problem& given, const Hashing& how);

}  // namespace fovea::reference

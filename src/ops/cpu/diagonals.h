#pragma once

#include "ops/diagonals_kernels.h"

namespace fovea::cpu {

// The part of a product that one task does.
struct DiagonalRows {
  std::int64_t item, begin, end;  // rows of the item
};

}  // namespace fovea::cpu

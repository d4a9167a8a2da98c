#pragma once

#include "fovea/tensor.h"

// The loop of cumulative sums. x and y are dense (rows, width).
namespace fovea::cpu {

struct RunningSum {
  Tensor x, y;
  bool back;  // from the last row to the first
};
// Rows [begin, end): running += x, y = running. running (width) is in the wide type.
void cumulate(const RunningSum& io, std::int64_t begin, std::int64_t end, void* running);

}  // namespace fovea::cpu

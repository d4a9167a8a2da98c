#pragma once

#include "fovea/tensor.h"

// Checks of i32 index tensors, dense. Both answer with a place in the index, or -1 when all is well.
namespace fovea::kernels {

struct IndexRange {
  Tensor index;
  std::int64_t least, limit;  // least <= entry < limit
};
template <Device>
std::int64_t first_outside(const Context& context, const IndexRange& io);

// index (b, m, heads) names rows below `rows`, none of an item and head twice; negative entries name none.
struct IndexOnce {
  Tensor index;
  std::int64_t rows;
};
template <Device>
std::int64_t first_repeated(const Context& context, const IndexOnce& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/tensor.h"

// Checks of i32 index tensors, dense. Both leave a place in the index in `place`, an i64 scalar, or -1 when all is
// well.
namespace fovea::kernels {

struct IndexRange {
  Tensor index;
  std::int64_t least, limit;  // least <= entry < limit
  Tensor place;
};
template <Device>
void first_outside(const Context& context, const IndexRange& io);

// index (b, m, heads) names rows below `rows`, none of an item and head twice; negative entries name none.
struct IndexOnce {
  Tensor index;
  std::int64_t rows;
  Tensor place;
};
template <Device>
void first_repeated(const Context& context, const IndexOnce& io);

}  // namespace fovea::kernels

#pragma once

#include <limits>

#include "policy/math.h"
#include "tensor/cuda/held_rows.cuh"

namespace fovea::device {

// The largest of a row, at least the lowest finite number, and the sum of e^(x - top).
template <class R>
struct Peak {
  R top, sum;
};

template <class Row, class Again>
__device__ inline auto peak_of(Row& row, const Again& again) {
  using R = std::remove_all_extents_t<decltype(row.held)>;
  R top = std::numeric_limits<R>::lowest();
  row.packs(again, [&](std::int64_t c, R(&x)[kPack]) {
#pragma unroll
    for (int e = 0; e < kPack; ++e)
      if (e < row.shape.left(c)) top = larger(top, x[e]);
  });
  top = row.group.max(top);
  return Peak<R>{top, row.sum(again, [&](std::int64_t, R x) { return math::exp(x - top); })};
}

}  // namespace fovea::device

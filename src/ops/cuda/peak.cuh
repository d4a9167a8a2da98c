#pragma once

#include <limits>

#include "policy/math.h"
#include "tensor/cuda/held_rows.cuh"

namespace fovea::device {

// The largest of a row, at least the lowest finite number.
template <class Row, class Again>
__device__ inline auto top_of(Row& row, const Again& again) {
  using R = std::remove_all_extents_t<decltype(row.held)>;
  R top = std::numeric_limits<R>::lowest();
  row.packs(again, [&](std::int64_t c, R(&x)[kPack]) {
#pragma unroll
    for (int e = 0; e < kPack; ++e)
      if (e < row.shape.left(c)) top = larger(top, x[e]);
  });
  return row.group.max(top);
}

// That, and the sum of e^(x - top).
template <class R>
struct Peak {
  R top, sum;
};
template <class Row, class Again>
__device__ inline auto peak_of(Row& row, const Again& again) {
  const auto top = top_of(row, again);
  return Peak{top, row.sum(again, [&](std::int64_t, auto x) { return math::exp(x - top); })};
}

}  // namespace fovea::device

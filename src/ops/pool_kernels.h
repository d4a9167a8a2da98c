#pragma once

#include "fovea/tensor.h"
#include "ops/spans.h"

namespace fovea::kernels {

// Means over ranges of the rows of (batch n, width): out (ranges, width), 0 for an empty range. Dense.
struct MeanRows {
  Tensor x, out;
  const RowList* ranges;
  std::int64_t n;
};
template <Device>
void mean_rows(const Context& context, const MeanRows& io);

// Every row of dx (batch n, width) gets its range's share of g (ranges, width), the others 0; or, with `add`, it is
// added to what is there.
struct MeanRowsVjp {
  Tensor g, dx;
  const RowList* ranges;
  std::int64_t n;
  bool add;
};
template <Device>
void mean_rows_backward(const Context& context, const MeanRowsVjp& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/tensor.h"

// Kernels of pools over windows of rows. x and y are dense (b, rows, c); index i32 (b, m, size) names the rows of
// each window, -1 for none.
namespace fovea::kernels {

// With taps i32 (b, m, c): y = the largest, taps = where in the window it stands (the first of equals; a NaN is
// larger than anything). A window of nothing gives 0, and -1. Without taps: y = the mean over `size`.
struct SlidingPool {
  Tensor index, taps, x, y;
};
template <Device>
void sliding_pool(const Context& context, const SlidingPool& io);

// sums (b, n, c), in the wide type, += the gradients g (b, m, c) of the rows they came from.
struct SlidingPoolVjp {
  Tensor index, taps, g, sums;
};
template <Device>
void sliding_pool_backward(const Context& context, const SlidingPoolVjp& io);

}  // namespace fovea::kernels

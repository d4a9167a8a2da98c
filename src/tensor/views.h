#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Axis 2 of x (b, n, heads, d) so many times its first entry: a view.
Tensor first_head_repeated(const Tensor& x, std::int64_t heads);

// Do both begin at the same number in memory?
bool same_place(const Tensor& a, const Tensor& b);

}  // namespace fovea

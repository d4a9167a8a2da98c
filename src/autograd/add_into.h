#pragma once

#include "fovea/tensor.h"

namespace fovea {

// to += from, elementwise; same shape; any strides; sums in f32 (f64 for an f64 target).
void add_into(const Context& context, const Tensor& to, const Tensor& from);

}  // namespace fovea

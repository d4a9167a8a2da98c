#pragma once

#include "fovea/tensor.h"

namespace fovea {

// to += from, elementwise; same shape; sums in the wider of the two types and at least f32.
void add_into(const Context& context, const Tensor& to, const Tensor& from);

}  // namespace fovea

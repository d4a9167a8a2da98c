#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Is every number of a dense tensor finite? Integers are.
bool all_finite(const Tensor& tensor);
// The same as an i64 scalar where it lies: 1 or 0.
Tensor finite_answer(const Context& context, const Tensor& tensor);

}  // namespace fovea

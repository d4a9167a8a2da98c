#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Is every number of a dense tensor finite? Integers are.
bool all_finite(const Tensor& tensor);

}  // namespace fovea

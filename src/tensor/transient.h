#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Dense, in a memory, for what has no context: a copy on its way, an answer.
Tensor transient(const std::shared_ptr<Memory>& memory, const Shape& shape, DType dtype);

}  // namespace fovea

#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// `answer`, an i64 scalar: 1 if every number of a dense floating tensor is finite, else 0.
struct FiniteCheck {
  Tensor tensor, answer;
};
template <Device>
void all_finite(const FiniteCheck& io);

}  // namespace fovea::kernels

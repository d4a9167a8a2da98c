#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// flag, a u8 scalar: is every element of x, dense, finite, or -inf where that may be?
struct AreNumbers {
  Tensor x;
  bool or_minus_infinity;
  Tensor flag;
};
template <Device>
void are_numbers(const Context& context, const AreNumbers& io);

}  // namespace fovea::kernels

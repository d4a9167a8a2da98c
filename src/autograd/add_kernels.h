#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// to += from, of one shape in any floating dtypes and strides.
struct AddTensors {
  Tensor to, from;
};
template <Device>
void add_into(const Context& context, const AddTensors& io);

}  // namespace fovea::kernels

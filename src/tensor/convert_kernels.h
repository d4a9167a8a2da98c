#pragma once

#include <vector>

#include "fovea/tensor.h"

namespace fovea::kernels {

// Dense floats of one shape each into those of another type, all in one go.
struct ConvertTensors {
  std::vector<Tensor> from, to;
};
template <Device>
void convert(const Context& context, const ConvertTensors& io);

}  // namespace fovea::kernels

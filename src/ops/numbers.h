#pragma once

#include <vector>

#include "fovea/tensor.h"

namespace fovea {

// The values of floating scalars, brought to the host by one read. 0 for one that is undefined.
std::vector<double> read_numbers(const Context& context, std::vector<Tensor> scalars);

}  // namespace fovea

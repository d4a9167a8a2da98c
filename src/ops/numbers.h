#pragma once

#include <vector>

#include "fovea/tensor.h"

namespace fovea {

// Floating scalars side by side, f64, where the context is. 0 for one that is undefined.
Tensor collect_numbers(const Context& context, std::vector<Tensor> scalars);
// Their values, brought to the host by one read.
std::vector<double> read_numbers(const Context& context, std::vector<Tensor> scalars);

}  // namespace fovea

#pragma once

#include <span>

#include "fovea/autograd.h"

namespace fovea {

// Refuses NaN and infinity in what an operation made. Minus infinity passes: it is the log of nothing.
void watch_values(const Op& op, std::span<const Tensor> values);
// The same for the gradients that an operation has just given to its inputs.
void watch_gradients(const Node& node);

}  // namespace fovea

#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Rows of logits (rows, classes) whose largest entry is the label's.
std::int64_t count_correct(const Tensor& logits, const Tensor& labels);

}  // namespace fovea

#pragma once

#include "fovea/ops.h"

// What the two forms of cross-entropy share.
namespace fovea {

// How many rows of logits (..., classes) count; refuses targets that do not fit them.
std::int64_t count_targets(const Context& context, const Shape& logits, const Tensor& targets,
                           const CrossEntropy& options);

// sum / counted, a scalar in the wide type; 0 where nothing counts.
Tensor mean_loss(const Context& context, double sum, std::int64_t counted, DType dtype);

}  // namespace fovea

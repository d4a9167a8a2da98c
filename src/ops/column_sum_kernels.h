#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// The sums over all rows of x (rows, width), or of x * y where y is defined, in the wide type and a fixed order. Dense.
struct ColumnSum {
  Tensor x, y;
};
template <Device>
Tensor column_sums(const Context& context, const ColumnSum& io);

}  // namespace fovea::kernels

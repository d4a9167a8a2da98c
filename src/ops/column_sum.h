#pragma once

#include "core/visit_device.h"
#include "ops/column_sum_kernels.h"

namespace fovea {

// The sums over all rows of x (rows, width), or of x * y, in the wide type. Dense.
inline Tensor column_sums(const Context& context, const Tensor& x, const Tensor& y = {}) {
  const kernels::ColumnSum io{x, y};
  return visit_device(context, io, [&]<Device D>() { return kernels::column_sums<D>(context, io); });
}

}  // namespace fovea

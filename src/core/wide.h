#pragma once

#include "fovea/dtype.h"

namespace fovea {

// The dtype of sums, statistics and weights that belong to values of a floating dtype: Wide<T> at run time.
inline DType wide_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace fovea

#pragma once

#include "fovea/tensor.h"

namespace fovea::cpu {

// The value of a floating tensor with one element.
inline double scalar(const Tensor& t) {
  return visit_float(t.dtype(), [&]<class T>() { return static_cast<double>(static_cast<Wide<T>>(*t.data<T>())); });
}

}  // namespace fovea::cpu

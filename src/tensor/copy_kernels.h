#pragma once

#include "fovea/tensor.h"

namespace fovea::kernels {

// Of one shape and device, in any dtypes and strides.
struct CopyTensors {
  const Tensor &to, &from;
  int threads;
};
template <Device>
void copy(const CopyTensors& io);

struct FillTensor {
  const Tensor& to;
  double value;
  int threads;
};
template <Device>
void fill(const FillTensor& io);

}  // namespace fovea::kernels

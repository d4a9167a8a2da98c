#pragma once

#include "gemm/packed.h"

namespace fovea::kernels {

using gemm::PackedPanels;

struct PackTensors {
  PackedPanels to;
  Tensor weight;  // (in, out), f32, any strides
};
template <Device>
void pack(const Context& context, const PackTensors& io);

// x (rows, in) W + bias -> y (rows, out).
struct PackedProduct {
  PackedPanels weight;
  Tensor x, bias, y;
};
template <Device>
void multiply_packed(const Context& context, const PackedProduct& io);

}  // namespace fovea::kernels

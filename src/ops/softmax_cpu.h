#pragma once

#include "fovea/tensor.h"

// The loops of softmax and log-softmax over rows. Tensors are dense (rows, width).
namespace fovea::cpu {

struct Softmax {
  bool log;
  Tensor x, y;
};
void softmax(const Context& context, const Softmax& io);

struct SoftmaxPull {
  bool log;
  Tensor g, y, dx;
};
void softmax_backward(const Context& context, const SoftmaxPull& io);

}  // namespace fovea::cpu

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

// y (rows), in the wide type: the logarithm of the sum of e^x over each row; -inf for none.
void log_sum_exp(const Context& context, const Tensor& x, const Tensor& y);

// dx = g e^(x - y), and 0 where y is -inf.
struct LogSumExpPull {
  Tensor g, x, y, dx;
};
void log_sum_exp_backward(const Context& context, const LogSumExpPull& io);

}  // namespace fovea::cpu

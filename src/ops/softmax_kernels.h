#pragma once

#include "fovea/tensor.h"

// Kernels of softmax and log-softmax over rows. Tensors are dense (rows, width).
namespace fovea::kernels {

struct Softmax {
  bool log;
  Tensor x, y;
};
template <Device>
void softmax(const Context& context, const Softmax& io);

struct SoftmaxVjp {
  bool log;
  Tensor g, y, dx;
};
template <Device>
void softmax_backward(const Context& context, const SoftmaxVjp& io);

// y (rows), in the wide type: the logarithm of the sum of e^x over each row; -inf for none.
struct LogSumExp {
  Tensor x, y;
};
template <Device>
void log_sum_exp(const Context& context, const LogSumExp& io);

// dx = g e^(x - y), and 0 where y is -inf.
struct LogSumExpVjp {
  Tensor g, x, y, dx;
};
template <Device>
void log_sum_exp_backward(const Context& context, const LogSumExpVjp& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/ops.h"
#include "ops/dropout.h"

// Kernels of the activations. Tensors are dense.
namespace fovea::kernels {

// y = act(x).
struct Apply {
  Activation activation;
  Tensor x, y;
};
template <Device>
void activate(const Context& context, const Apply& io);
// x (rows, 2h): y (rows, h) = act(x[:, :h]) * x[:, h:], dropped out.
struct Glu {
  Activation activation;
  Dropout keep;
  Tensor x, y;
};
template <Device>
void glu(const Context& context, const Glu& io);

// dx = g act'.
struct ActivateVjp {
  Activation activation;
  Tensor g, saved, dx;  // saved: the output or the input, as slope_from_output() says
};
template <Device>
void activate_backward(const Context& context, const ActivateVjp& io);
// The same for (rows, width), with the sums of dx over its rows.
template <Device>
Tensor activate_backward_and_sum(const Context& context, const ActivateVjp& io);

struct GluVjp {
  Activation activation;
  Dropout keep;
  Tensor g, x, dx;
};
template <Device>
void glu_backward(const Context& context, const GluVjp& io);

}  // namespace fovea::kernels

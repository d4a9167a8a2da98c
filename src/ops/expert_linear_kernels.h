#pragma once

#include <vector>

#include "fovea/ops.h"

// One product for each expert. Rows [begin_e, begin_(e + 1)) are those of expert e, begin i32 (experts + 1); the rows
// after the last are 0. Tensors are dense, but for weights (in, out).
namespace fovea::kernels {

// y = act(z), z = x W_e + b_e: x (rows, in), y and z (rows, out). They are one tensor where z is not asked for again.
struct ExpertProducts {
  Activation activation;
  Tensor x, begin;
  std::vector<Tensor> weights, biases;  // biases (out), in the wide type, or none
  Tensor z, y;
};
template <Device>
void expert_linear(const Context& context, const ExpertProducts& io);

// A gradient that is added to, or written where nothing is there yet. Undefined: not wanted.
struct ExpertGradient {
  Tensor grad;
  bool fresh = true;
};
struct ExpertVjps {
  Activation activation;
  Tensor g, saved;  // (rows, out); saved: y or z, as slope_from_output() says
  Tensor x, begin;
  std::vector<Tensor> weights;
  Tensor dz;                              // (rows, out): room; g itself where there is no activation
  Tensor dx;                              // (rows, in); undefined: not wanted
  std::vector<ExpertGradient> d_weights;  // (in, out), in the wide type
  Tensor d_biases;                        // (experts, out), in the wide type; undefined: not wanted
};
template <Device>
void expert_linear_backward(const Context& context, const ExpertVjps& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/ops.h"
#include "ops/dropout.h"

// The loops of the activations. Tensors are dense.
namespace fovea::cpu {

// y = act(x).
struct Apply {
  Activation activation;
  Tensor x, y;
};
void activate(const Context& context, const Apply& io);
// The same for x (rows, 2h): y (rows, h) = act(x[:, :h]) * x[:, h:], dropped out.
void glu(const Context& context, const Apply& io, const Keep& keep);

// dx = g act'.
struct Pull {
  Activation activation;
  Tensor g, saved, dx;  // saved: the output or the input, as slope_from_output() says; always the input for glu
};
void activate_backward(const Context& context, const Pull& io);
void activate_backward_range(const Pull& io, std::int64_t begin,
                             std::int64_t end);  // elements [begin, end), one thread
void glu_backward(const Context& context, const Pull& io, const Keep& keep);

}  // namespace fovea::cpu

#pragma once

#include "mechanisms/kind.h"
#include "ops/sequence.h"

// Where what is computed for the rows of some sequences goes: rows of no sequence are 0.
namespace fovea {

inline Tensor output_like(const Context& context, const Shape& shape, DType dtype,
                          const std::vector<Sequences::Rows>& rows) {
  return covers(rows, shape) ? Tensor::empty(context, shape, dtype) : Tensor::zeros(context, shape, dtype);
}

// The same for the gradient of an input, in place where that is possible.
inline Tensor gradient_like(const Tape& tape, const std::shared_ptr<Slot>& slot, const Tensor& input,
                            const std::vector<Sequences::Rows>& rows) {
  const Tensor gradient = tape.room(slot, input.shape(), input.dtype());
  if (!covers(rows, input.shape())) gradient.fill(0.0);
  return gradient;
}

}  // namespace fovea

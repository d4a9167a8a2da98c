#pragma once

#include "fovea/tensor.h"
#include "ops/dropout.h"

// The loops of the elementwise operations. Tensors are dense.
namespace fovea::cpu {

enum class Binary : std::uint8_t { add, sub, mul };

// y = a op b; b is repeated over a, and holds the type of a or its wide type.
struct BinaryTensors {
  Binary op;
  Tensor a, b, y;
};
void binary(const Context& context, const BinaryTensors& io);

// y = x * factor; y may be x.
struct ScaleTensors {
  double factor;
  Tensor x, y;
};
void scale(const Context& context, const ScaleTensors& io);

// y = x where kept, times the scale; 0 elsewhere.
struct DropoutTensors {
  Keep keep;
  Tensor x, y;
};
void dropout(const Context& context, const DropoutTensors& io);

}  // namespace fovea::cpu

#pragma once

#include "fovea/tensor.h"

// Kernels of the losses between two tensors of numbers. Tensors are dense; the target has the type of x or its wide
// type.
namespace fovea::kernels {

enum class Distance : std::uint8_t { squared, absolute };

struct DistanceTensors {
  Distance kind;
  Tensor x, target;
  Tensor loss;  // a scalar: the mean over all elements
};
template <Device>
void distance(const Context& context, const DistanceTensors& io);

// dx = g / elements times the slope of each element's distance; an absolute one of 0 has slope 0.
struct DistanceVjp {
  Distance kind;
  Tensor x, target;
  Tensor g;  // of the loss
  Tensor dx;
};
template <Device>
void distance_backward(const Context& context, const DistanceVjp& io);

}  // namespace fovea::kernels

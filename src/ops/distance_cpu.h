#pragma once

#include "fovea/tensor.h"

// The loops of the losses between two tensors of numbers. Tensors are dense; the target has the type of x or its wide
// type.
namespace fovea::cpu {

enum class Distance : std::uint8_t { squared, absolute };

struct DistanceTensors {
  Distance kind;
  Tensor x, target;
};
// The sum over all elements.
double distance(const Context& context, const DistanceTensors& io);

// dx = scale times the slope of each element's distance; an absolute one of 0 has slope 0.
void distance_backward(const Context& context, const DistanceTensors& io, double scale, const Tensor& dx);

}  // namespace fovea::cpu

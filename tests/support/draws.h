#pragma once

#include <vector>

#include "core/rng.h"
#include "fovea/tensor.h"

namespace fovea::testing {

// The next normal values of `draws`, times `scale` and about `mean`: the same for every dtype up to its rounding.
inline Tensor random(const Context& context, const Shape& shape, Random& draws, DType dtype = DType::f64,
                     double scale = 1.0, double mean = 0.0) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& v : values) v = mean + scale * draws.normal();
  const Tensor t = Tensor::empty(context, shape, dtype);
  t.copy_from(Tensor::from<double>(context, shape, values));
  return t;
}

}  // namespace fovea::testing

#pragma once

#include <span>
#include <vector>

#include "fovea/model.h"

namespace fovea {

inline void check_updatable(const Parameter& p) {
  const Tensor& value = p.var.value();
  if ((value.dtype() != DType::f32 && value.dtype() != DType::f64) || !value.is_contiguous())
    fail(ErrorCode::usage, "parameters must be contiguous f32 or f64", p.name);
}

// Those there are, in the order of the parameters.
inline std::vector<Tensor> gradients_of(std::span<const Parameter> parameters) {
  std::vector<Tensor> grads;
  for (const Parameter& p : parameters)
    if (p.trained() && p.var.grad().defined()) grads.push_back(p.var.grad());
  return grads;
}

}  // namespace fovea

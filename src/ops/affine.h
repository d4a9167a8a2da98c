#pragma once

#include <string>

#include "fovea/autograd.h"
#include "ops/work.h"

// The learned gain and bias of a norm, each of them optional.
namespace fovea {

inline void check_affine(std::int64_t width, const Var& gain, const Var& bias) {
  for (const auto& [name, v] : {std::pair{"gain", &gain}, std::pair{"bias", &bias}})
    if (v->defined() && v->shape() != Shape{width})
      fail(ErrorCode::shape,
           std::string(name) + " of shape " + v->shape().text() + " for a norm over " + std::to_string(width),
           "norm." + std::string(name));
}

// The parameter in a wide type, or (width) of its neutral element.
inline Tensor wide_parameter(const Context& context, const Var& v, const Tensor& like, double neutral) {
  if (v.defined()) return v.value().to(context, wide_type(like.dtype())).contiguous(context);
  const Tensor t = Tensor::empty(context, {like.dim(-1)}, wide_type(like.dtype()));
  t.fill(neutral);
  return t;
}

}  // namespace fovea

#pragma once

#include "core/array.h"
#include "fovea/tensor.h"

namespace fovea {

// The engines' view of (b, n, heads, dim), or of statistics (b, n, heads); nothing for a tensor that is not defined.
template <class Array>
Array array_of(const Tensor& x) {
  return x.defined() ? Array{x.raw(), x.stride(0), x.stride(1), x.stride(2)} : Array{};
}

}  // namespace fovea

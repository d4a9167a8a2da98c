#pragma once

#include "fovea/tensor.h"

namespace fovea::device {

// Where the rows of (b, n, heads, ...) begin; the last axis is dense.
struct HeadRows {
  std::int64_t item, row, head;  // strides

  explicit HeadRows(const Tensor& t) : item(t.stride(0)), row(t.stride(1)), head(t.stride(2)) {}
  __device__ std::int64_t at(std::int64_t i, std::int64_t r, std::int64_t h) const {
    return i * item + r * row + h * head;
  }
};

}  // namespace fovea::device

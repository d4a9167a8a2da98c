#pragma once

#include <cstdint>

#include "fovea/tensor.h"

namespace fovea {

// The rows of (b, n, heads, d), last axis dense.
template <class T>
struct HeadRows {
  explicit HeadRows(const Tensor& t) : data(t.data<T>()), item(t.stride(0)), row(t.stride(1)), head(t.stride(2)) {}
  T* at(std::int64_t b, std::int64_t i, std::int64_t h) const { return data + b * item + i * row + h * head; }

  T* data;
  std::int64_t item, row, head;
};

}  // namespace fovea

#pragma once

#include <cstdint>

namespace fovea {

// A (batch, n, heads, dim) array as the engines see it, in the memory of the device they run on; strides in elements;
// the last axis is dense.
template <class Pointer>
struct Array {
  Pointer data = nullptr;
  std::int64_t batch = 0, row = 0, head = 0;
};
using In = Array<const void*>;
using Out = Array<void*>;

}  // namespace fovea

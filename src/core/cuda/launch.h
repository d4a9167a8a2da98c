#pragma once

#include <cuda_runtime_api.h>

#include "fovea/memory.h"

// What the engines on a card share.
namespace fovea::device {

// Where a call's kernels run, and where its scratch comes from: memory that the stream may use at once and that is
// handed back in the order of the stream.
struct Launch {
  cudaStream_t stream = nullptr;
  Allocator* allocator = nullptr;  // of a memory with this stream; null: the driver's pool
};

}  // namespace fovea::device

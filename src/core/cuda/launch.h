#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

// What the engines on a card share.
namespace fovea::device {

// Where a call's kernels run, and where its scratch comes from: memory that the stream may use at once and that is
// handed back in the order of the stream.
struct Launch {
  cudaStream_t stream = nullptr;
  void* owner = nullptr;
  void* (*allocate)(const Launch& launch, std::size_t bytes) = nullptr;  // null: the driver's pool of the stream
  void (*release)(const Launch& launch, void* data) = nullptr;
};

}  // namespace fovea::device

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

// What the runtime answers, as errors that say what to do.
namespace fovea::device {

// Does a card answer every call with this from now on? Nothing on it can be read any more.
bool is_lost(cudaError_t status);

[[noreturn]] void refuse_cuda(cudaError_t status, const char* where);
[[noreturn]] void refuse_memory(std::size_t bytes, const char* where);  // that are not there

inline void check_cuda(cudaError_t status, const char* where) {
  if (status != cudaSuccess) refuse_cuda(status, where);
}

// Of a call that asked for memory.
inline void check_memory(cudaError_t status, std::size_t bytes, const char* where) {
  if (status == cudaErrorMemoryAllocation) refuse_memory(bytes, where);
  check_cuda(status, where);
}

// What the card that is used now is or has.
inline int current_card(cudaDeviceAttr what) {
  int index = 0, value = 0;
  check_cuda(cudaGetDevice(&index), "the current card");
  check_cuda(cudaDeviceGetAttribute(&value, what, index), "the current card");
  return value;
}

}  // namespace fovea::device

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "core/cuda/errors.h"
#include "core/cuda/launch.h"
#include "fovea/error.h"

namespace fovea::device {

// Memory of the card that outlives the calls.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) check_memory(cudaMalloc(&data_, bytes), bytes, "plans on the card");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }  // waits for the kernels that read it

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Scratch of one call.
class DeviceScratch {
 public:
  DeviceScratch(const Launch& launch, std::size_t bytes) : launch_(launch) {
    if (bytes == 0) return;
    if (launch_.allocator != nullptr)
      block_ = launch_.allocator->allocate(bytes, Lifetime::scratch);
    else
      check_memory(cudaMallocAsync(&block_.data, bytes, launch_.stream), bytes, "scratch of attention");
  }
  ~DeviceScratch() {
    if (block_.data == nullptr) return;
    if (launch_.allocator != nullptr)
      launch_.allocator->release(block_);
    else
      cudaFreeAsync(block_.data, launch_.stream);
  }
  DeviceScratch(DeviceScratch&& other) noexcept : launch_(other.launch_), block_(std::exchange(other.block_, {})) {}
  DeviceScratch& operator=(DeviceScratch&&) = delete;

  void* data() const { return block_.data; }

 private:
  Launch launch_;
  Allocator::Block block_;
};

}  // namespace fovea::device

#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// Host arrays on the card and back.
namespace fovea::testing {

inline void expect_ok(cudaError_t status) { ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status); }

// Copies of host memory on the card.
class Mirror {
 public:
  Mirror() = default;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() {
    for (const Block& block : blocks_) cudaFree(block.device);
  }

  void* in(const void* data, std::size_t bytes) {
    if (bytes == 0) return nullptr;
    blocks_.push_back({});
    Block& block = blocks_.back();
    expect_ok(cudaMalloc(&block.device, bytes));
    expect_ok(cudaMemcpy(block.device, data, bytes, cudaMemcpyHostToDevice));
    return block.device;
  }
  void* out(void* data, std::size_t bytes) {
    void* device = in(data, bytes);
    if (device != nullptr) blocks_.back().host = data, blocks_.back().bytes = bytes;
    return device;
  }
  // Copies the results back, after all work.
  void finish() {
    expect_ok(cudaDeviceSynchronize());
    for (const Block& block : blocks_)
      if (block.host != nullptr) expect_ok(cudaMemcpy(block.host, block.device, block.bytes, cudaMemcpyDeviceToHost));
  }

 private:
  struct Block {
    void* device = nullptr;
    void* host = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Block> blocks_;
};

}  // namespace fovea::testing

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/dtype.h"

// What the programs that time kernels on a card share.
namespace fovea::bench {

inline void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

// Random numbers on the card, uniform from `low` to `high`; zeros for seed 0.
template <class T>
class DeviceArray {
 public:
  DeviceArray(std::int64_t count, std::uint64_t seed, float low = -1.0f, float high = 1.0f) {
    const auto all = static_cast<std::size_t>(count);
    if (all == 0) return;
    must(cudaMalloc(&data_, all * sizeof(T)));
    std::vector<T> host(std::min<std::size_t>(all, std::size_t{1} << 20));
    Random source(seed);
    for (T& x : host) x = T(seed == 0 ? 0.0f : low + (high - low) * source.uniform());
    for (std::size_t at = 0; at < all; at += host.size())
      must(cudaMemcpy(static_cast<T*>(data_) + at, host.data(), std::min(host.size(), all - at) * sizeof(T),
                      cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

inline double median_ms(int rounds, const std::function<void(int)>& run, cudaStream_t stream = nullptr) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) run(i);
  std::vector<float> times;
  for (int i = 0; i < rounds; ++i) {
    must(cudaEventRecord(begin, stream));
    run(i);
    must(cudaEventRecord(end, stream));
    must(cudaEventSynchronize(end));
    times.push_back(0);
    must(cudaEventElapsedTime(&times.back(), begin, end));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

// Scratch stays with the stream's pool from one call to the next, as it does under an allocator.
inline void keep_scratch() {
  cudaMemPool_t pool;
  must(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t all = ~std::uint64_t{0};
  must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

}  // namespace fovea::bench

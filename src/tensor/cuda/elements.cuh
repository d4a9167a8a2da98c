#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "fovea/tensor.h"

namespace fovea::device {

// Several numbers that are computed and summed together.
template <class R, int kCount>
struct Values {
  R of[kCount];

  __device__ R& operator[](int i) { return of[i]; }
  __device__ const R& operator[](int i) const { return of[i]; }
  __device__ Values operator+(const Values& other) const {
    Values sum;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum.of[i] = of[i] + other.of[i];
    return sum;
  }
};

// Elements of a tensor as R, whatever float they are stored as. The type is looked up at run time: it is the same for
// all threads, and what they wait for is memory.
template <class R>
struct Elements {
  void* data = nullptr;
  DType dtype = DType::f32;

  __device__ bool defined() const { return data != nullptr; }
  __device__ R operator[](std::int64_t i) const {
    switch (dtype) {
      case DType::bf16: return static_cast<R>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]));
      case DType::f16: return static_cast<R>(__half2float(static_cast<const __half*>(data)[i]));
      case DType::f64: return static_cast<R>(static_cast<const double*>(data)[i]);
      default: return static_cast<R>(static_cast<const float*>(data)[i]);
    }
  }
  __device__ void put(std::int64_t i, R value) const {
    switch (dtype) {
      case DType::bf16: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(static_cast<float>(value)); return;
      case DType::f16: static_cast<__half*>(data)[i] = __float2half_rn(static_cast<float>(value)); return;
      case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); return;
      default: static_cast<float*>(data)[i] = static_cast<float>(value);
    }
  }
};

template <class R>
Elements<R> elements(const Tensor& t) {
  if (t.defined() && !is_float(t.dtype()))
    fail(ErrorCode::internal, "elements of " + std::string(name_of(t.dtype())) + " as floats", "a kernel");
  return {t.raw(), t.dtype()};
}

// The data of a tensor of a known type; null where it is undefined.
template <class T>
T* pointer(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

inline constexpr int kThreads = 256;

// Blocks of a grid whose threads go on to further items until none is left.
inline unsigned blocks_for(std::int64_t items, std::int64_t items_of_block = kThreads) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t wanted = (items + items_of_block - 1) / items_of_block;
  return static_cast<unsigned>(wanted < kMost ? wanted : kMost);
}

template <class F>
__global__ void each_kernel(F f, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) f(i);
}

template <class F>
void each(const Queue& queue, std::int64_t count, const F& f) {
  if (count <= 0) return;
  each_kernel<<<blocks_for(count), kThreads, 0, queue.stream>>>(f, count);
  check_cuda(cudaGetLastError(), "a loop over elements");
}

}  // namespace fovea::device

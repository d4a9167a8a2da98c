#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "fovea/dtype.h"

// Elements of the caller's arrays as the accumulation type, chosen at run time: for kernels that are not about speed.
namespace fovea::device {

template <class R>
__device__ inline R load_as(const void* data, DType dtype, std::int64_t i) {
  if constexpr (std::is_same_v<R, double>) {
    return static_cast<const double*>(data)[i];
  } else {
    if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    if (dtype == DType::f16) return __half2float(static_cast<const __half*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
}

template <class R>
__device__ inline void store_as(void* data, DType dtype, std::int64_t i, R value) {
  if constexpr (std::is_same_v<R, double>) {
    static_cast<double*>(data)[i] = value;
  } else {
    if (dtype == DType::bf16)
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
    else if (dtype == DType::f16)
      static_cast<__half*>(data)[i] = __float2half_rn(value);
    else
      static_cast<float*>(data)[i] = value;
  }
}

}  // namespace fovea::device

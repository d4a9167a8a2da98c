#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "gemm/gemm_kernels.h"

namespace fovea {

template <>
double kernels::time_product<Device::cuda>(const Context& context, std::int64_t n) {
  const Tensor a = Tensor::empty(context, {n, n}), b = Tensor::empty(context, {n, n}),
               c = Tensor::empty(context, {n, n});
  a.fill(0.5);
  b.fill(0.25);
  const cudaStream_t stream = device::stream_of(context);
  cudaEvent_t begin = nullptr, end = nullptr;
  for (cudaEvent_t* event : {&begin, &end}) device::check_cuda(cudaEventCreate(event), "timing");
  float milliseconds = 0.0f;
  for (int run = 0; run < 2; ++run) {
    device::check_cuda(cudaEventRecord(begin, stream), "timing");
    multiply<Device::cuda>(context, {a, b, c, {}});
    device::check_cuda(cudaEventRecord(end, stream), "timing");
    device::check_cuda(cudaEventSynchronize(end), "timing");
    device::check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
  }
  for (cudaEvent_t event : {begin, end}) device::check_cuda(cudaEventDestroy(event), "timing");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace fovea

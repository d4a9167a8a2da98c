#include "tensor/finite_kernels.h"

#include "tensor/cuda/elements.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// For a few numbers: a block says what it finds.
template <class Bits>
__global__ void look_kernel(const Bits* bits, std::int64_t count, Bits exponent, std::int64_t* answer) {
  int strange = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x)
    strange |= static_cast<int>((bits[i] & exponent) == exponent);
  strange = __syncthreads_or(strange);
  if (threadIdx.x == 0) *answer = strange != 0 ? 0 : 1;
}

// Numbers whose exponent is all ones are infinite, or not numbers: one of them leaves a 0.
template <class Bits>
void look(const kernels::FiniteCheck& io, Bits exponent) {
  constexpr std::int64_t kFew = 4 * kThreads;
  const Bits* const bits = static_cast<const Bits*>(io.tensor.raw());
  std::int64_t* const answer = pointer<std::int64_t>(io.answer);
  const Queue queue(*io.tensor.memory());
  if (io.tensor.numel() <= kFew) {
    look_kernel<<<1, kThreads, 0, queue.stream>>>(bits, io.tensor.numel(), exponent, answer);
    return check_cuda(cudaGetLastError(), "a look for what is not finite");
  }
  io.answer.fill(1.0);
  each(queue, io.tensor.numel(), [=] __device__(std::int64_t i) {
    if ((bits[i] & exponent) == exponent) *answer = 0;
  });
}

}  // namespace

template <>
void kernels::all_finite<Device::cuda>(const FiniteCheck& io) {
  switch (io.tensor.dtype()) {
    case DType::f64: return look<std::uint64_t>(io, 0x7ff0000000000000u);
    case DType::f32: return look<std::uint32_t>(io, 0x7f800000u);
    case DType::bf16: return look<std::uint16_t>(io, 0x7f80u);
    default: return look<std::uint16_t>(io, 0x7c00u);
  }
}

}  // namespace fovea

#include "tensor/finite_kernels.h"

#include "tensor/cuda/elements.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Numbers whose exponent is all ones are infinite, or not numbers: one of them leaves a 0.
template <class Bits>
void look(const kernels::FiniteCheck& io, Bits exponent) {
  const Bits* const bits = static_cast<const Bits*>(io.tensor.raw());
  std::int64_t* const answer = pointer<std::int64_t>(io.answer);
  each(Queue(*io.tensor.memory()), io.tensor.numel(), [=] __device__(std::int64_t i) {
    if ((bits[i] & exponent) == exponent) *answer = 0;
  });
}

}  // namespace

template <>
void kernels::all_finite<Device::cuda>(const FiniteCheck& io) {
  io.answer.fill(1.0);
  switch (io.tensor.dtype()) {
    case DType::f64: return look<std::uint64_t>(io, 0x7ff0000000000000u);
    case DType::f32: return look<std::uint32_t>(io, 0x7f800000u);
    case DType::bf16: return look<std::uint16_t>(io, 0x7f80u);
    default: return look<std::uint16_t>(io, 0x7c00u);
  }
}

}  // namespace fovea

#include "tensor/finite_kernels.h"

#include <algorithm>

namespace fovea {
namespace {

// All ones in the exponent: infinite, or not a number.
template <class Bits>
bool is_finite(const Tensor& tensor, Bits exponent) {
  const Bits* bits = static_cast<const Bits*>(tensor.raw());
  return std::none_of(bits, bits + tensor.numel(), [=](Bits b) { return (b & exponent) == exponent; });
}

bool is_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f64: return is_finite<std::uint64_t>(tensor, 0x7ff0000000000000u);
    case DType::f32: return is_finite<std::uint32_t>(tensor, 0x7f800000u);
    case DType::bf16: return is_finite<std::uint16_t>(tensor, 0x7f80u);
    default: return is_finite<std::uint16_t>(tensor, 0x7c00u);
  }
}

}  // namespace

template <>
void kernels::all_finite<Device::cpu>(const FiniteCheck& io) {
  *io.answer.data<std::int64_t>() = is_finite(io.tensor) ? 1 : 0;
}

}  // namespace fovea

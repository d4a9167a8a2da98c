#include "mechanisms/mask_kernels.h"

#include <limits>

#include "fovea/dtype.h"

namespace fovea {
namespace {

// Calls f(index of out, offset in a, offset in b) for every element of a dense 4-axis `out`; a and b broadcast.
template <class F>
void for_each_pair(const Shape& out, const Tensor& a, const Tensor& b, F&& f) {
  const auto step = [](const Tensor& t, int axis) { return !t.defined() || t.dim(axis) == 1 ? 0 : t.stride(axis); };
  std::int64_t index = 0;
  for (std::int64_t i = 0; i < out[0]; ++i)
    for (std::int64_t j = 0; j < out[1]; ++j)
      for (std::int64_t k = 0; k < out[2]; ++k)
        for (std::int64_t l = 0; l < out[3]; ++l, ++index)
          f(index, i * step(a, 0) + j * step(a, 1) + k * step(a, 2) + l * step(a, 3),
            i * step(b, 0) + j * step(b, 1) + k * step(b, 2) + l * step(b, 3));
}

}  // namespace

template <>
void kernels::mask_bias<Device::cpu>(const Context&, const MaskBias& io) {
  visit_float(io.out.dtype(), [&]<class T>() {
    for_each_pair(io.out.shape(), io.bias, io.mask, [&](std::int64_t i, std::int64_t at_bias, std::int64_t at_mask) {
      const T kept = io.bias.defined() ? io.bias.data<T>()[at_bias] : T(0.0f);
      io.out.data<T>()[i] =
          io.mask.data<std::uint8_t>()[at_mask] != 0 ? kept : static_cast<T>(-std::numeric_limits<float>::infinity());
    });
  });
}

template <>
void kernels::mask_bias_backward<Device::cpu>(const Context&, const MaskBiasVjp& io) {
  visit_float(io.grad.dtype(), [&]<class T>() {
    for_each_pair(io.grad.shape(), io.d_bias, io.mask, [&](std::int64_t i, std::int64_t at_bias, std::int64_t at_mask) {
      if (io.mask.data<std::uint8_t>()[at_mask] == 0) return;
      T& sum = io.d_bias.data<T>()[at_bias];
      sum = static_cast<T>(sum + io.grad.data<T>()[i]);
    });
  });
}

}  // namespace fovea

#include "mechanisms/mask.h"

#include <limits>

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

void masked_bias_backward(Tape& tape, Node& node) {
  const Tensor& mask = node.saved[0];
  const Tensor grad = node.grad().contiguous(tape.context());
  const Tensor d_bias = Tensor::zeros(tape.context(), node.inputs[0]->shape, node.inputs[0]->dtype);
  visit_float(grad.dtype(), [&]<class T>() {
    for_each_pair(grad.shape(), d_bias, mask, [&](std::int64_t i, std::int64_t at_bias, std::int64_t at_mask) {
      if (mask.data<std::uint8_t>()[at_mask] != 0) {
        T& sum = d_bias.data<T>()[at_bias];
        sum = static_cast<T>(sum + grad.data<T>()[i]);
      }
    });
  });
  tape.accumulate(node.inputs[0], d_bias);
}

constexpr Op kMaskedBias{"masked_bias", masked_bias_backward};

}  // namespace

Var masked_bias(Tape& tape, const Var& bias, const Tensor& mask, DType dtype) {
  if (!mask.defined()) return bias;
  const Tensor& b = bias.value();
  Shape shape = mask.shape();
  for (int i = 0; bias.defined() && i < 4; ++i)
    if (mask.dim(i) == 1) shape.set(i, bias.dim(i));  // which may be 0
  const Tensor out = Tensor::empty(tape.context(), shape, dtype);
  visit_float(out.dtype(), [&]<class T>() {
    for_each_pair(shape, b, mask, [&](std::int64_t i, std::int64_t at_bias, std::int64_t at_mask) {
      const T kept = b.defined() ? b.data<T>()[at_bias] : T(0.0f);
      out.data<T>()[i] =
          mask.data<std::uint8_t>()[at_mask] != 0 ? kept : static_cast<T>(-std::numeric_limits<float>::infinity());
    });
  });
  return tape.record(kMaskedBias, {bias}, out, {mask});
}

}  // namespace fovea

#pragma once

#include "fovea/tensor.h"
#include "ops/dropout.h"

// Kernels of the elementwise operations. Tensors are dense.
namespace fovea::kernels {

enum class Binary : std::uint8_t { add, sub, mul };

// y = a op b; b is repeated over a, and holds the type of a or its wide type.
struct BinaryTensors {
  Binary op;
  Tensor a, b, y;
};
template <Device>
void binary(const Context& context, const BinaryTensors& io);

// y = x * factor; y may be x. With `by`, a scalar, the factor is factor by.
struct ScaleTensors {
  double factor;
  Tensor x, y;
  Tensor by = {};
};
template <Device>
void scale(const Context& context, const ScaleTensors& io);

// y = x * min(e^log, most), log a scalar.
struct ExpScale {
  double most;
  Tensor log, x, y;
};
template <Device>
void exp_scale(const Context& context, const ExpScale& io);
// d_log: the sum of g x, a scalar, becomes that times the factor; at `most` only where it leads back.
struct ExpScaleVjp {
  double most;
  Tensor log, d_log;
};
template <Device>
void exp_scale_backward(const Context& context, const ExpScaleVjp& io);

// y = x where kept, times the scale; 0 elsewhere. Element 0 draws as element `first` of something larger, whose next
// elements follow; with `columns`, only so many of each of its rows of `stride` elements do.
struct DropoutTensors {
  Dropout keep;
  Tensor x, y;
  std::int64_t first = 0;
  std::int64_t columns = 0, stride = 0;

  std::int64_t drawn_as(std::int64_t i) const { return first + (columns > 0 ? i / columns * stride + i % columns : i); }
};
template <Device>
void dropout(const Context& context, const DropoutTensors& io);

}  // namespace fovea::kernels

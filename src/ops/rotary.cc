#include <algorithm>
#include <cmath>

#include "core/visit_device.h"
#include "ops/rotary_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// Rotates by the positions, or back.
Tensor rotated(const Context& context, const Tensor& x, const Tensor& positions, const Rotary& rotary, bool back) {
  const kernels::Rotate io{rotary, back, dense_rows(context, x), positions,
                           Tensor::empty(context, x.shape(), x.dtype())};
  if (x.numel() > 0) visit_device(context, io, [&]<Device D>() { kernels::rotate<D>(context, io); });
  return io.y;
}

// saved: the positions.
void backward(Tape& tape, Node& node) {
  const auto& rotary = std::any_cast<const Rotary&>(node.attributes);
  tape.accumulate(node.inputs[0], rotated(tape.context(), node.grad(), node.saved[0], rotary, true));
}

constexpr Op kRotate{"rotate", backward};

void check_rotate(const Var& x, const Tensor& positions, const Rotary& rotary) {
  if (x.value().rank() != 4)
    fail(ErrorCode::shape, "rotate of shape " + x.shape().text(), {}, "(batch, n, heads, dim)");
  if (positions.dtype() != DType::i32 || positions.shape() != Shape{x.dim(0), x.dim(1)})
    fail(ErrorCode::shape,
         "positions " + std::string(name_of(positions.dtype())) + positions.shape().text() + " for x of shape " +
             x.shape().text(),
         "positions", "i32 (batch, n)");
  if (rotary.width < 0 || rotary.width > x.dim(3))
    fail(ErrorCode::shape,
         "cannot rotate " + std::to_string(rotary.width) + " of " + std::to_string(x.dim(3)) + " channels",
         "rotary.width");
  if (!(rotary.base > 0.0)) fail(ErrorCode::usage, "the rotary base must be positive", "rotary.base");
  const RotaryStretch& stretch = rotary.stretch;
  if (!(stretch.factor > 0.0) || stretch.length < 0 || !(stretch.low < stretch.high))
    fail(ErrorCode::usage, "the factor must be positive and low below high", "rotary.stretch");
}

}  // namespace

double RotaryStretch::slowed(double frequency) const {
  const double slow = frequency / factor;
  if (length == 0) return slow;
  const double turns = static_cast<double>(length) * frequency / (2.0 * std::acos(-1.0));
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return (1.0 - kept) * slow + kept * frequency;
}

Var rotate(Tape& tape, const Var& x, const Tensor& positions, const Rotary& rotary) {
  check_rotate(x, positions, rotary);
  const Tensor rows = positions.contiguous(tape.context());
  return tape.record(kRotate, {x}, rotated(tape.context(), x.value(), rows, rotary, false), {rows}, rotary);
}

}  // namespace fovea

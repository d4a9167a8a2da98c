#include "core/visit_device.h"
#include "ops/padding_kernels.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

// x (b, n, ...) with `value` in the rows outside every span.
Tensor filled(const Context& context, const Tensor& x, const std::vector<Span>& spans, double value) {
  const kernels::FillPadding io{x.contiguous(context), Tensor::empty(context, x.shape(), x.dtype()), spans, value};
  visit_device(context, io, [&]<Device D>() { kernels::fill_padding<D>(context, io); });
  return io.y;
}

void backward(Tape& tape, Node& node) {
  const auto& spans = std::any_cast<const std::vector<Span>&>(node.attributes);
  tape.accumulate(node.inputs[0], filled(tape.context(), node.grad(), spans, 0.0));
}

constexpr Op kFillPadding{"fill_padding", backward};

}  // namespace

Var fill_padding(Tape& tape, const Var& x, const Sequences& rows, double value) {
  if (x.value().rank() < 2) fail(ErrorCode::shape, "padding of shape " + x.shape().text(), {}, "(b, n, ...)");
  if (rows.empty()) return x;
  const std::vector<Span> spans = spans_of(rows, x.dim(0), x.dim(1));
  return tape.record(kFillPadding, {x}, filled(tape.context(), x.value(), spans, value), {}, spans);
}

}  // namespace fovea

#include "ops/sequence.h"
#include "ops/spans.h"
#include "ops/work.h"

namespace fovea {
namespace {

// x (b, n, ...) with `value` in the rows outside every span.
Tensor filled(const Context& context, const Tensor& x, const std::vector<Span>& spans, double value) {
  const Tensor in = x.contiguous(context), y = Tensor::empty(context, x.shape(), x.dtype());
  const auto rows = static_cast<std::int64_t>(spans.size()), width = rows == 0 ? 0 : x.numel() / rows;
  visit_float(x.dtype(), [&]<class T>() {
    const T filling = T(static_cast<Wide<T>>(value));
    for_rows(context, rows, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Span span = spans[static_cast<std::size_t>(row)];
        if (span.begin < span.end)
          std::copy_n(in.data<T>() + row * width, width, y.data<T>() + row * width);
        else
          std::fill_n(y.data<T>() + row * width, width, filling);
      }
    });
  });
  return y;
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

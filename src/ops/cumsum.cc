#include "core/visit_device.h"
#include "ops/cumsum_kernels.h"
#include "ops/sequence.h"

namespace fovea {
namespace {

Tensor cumulated(const Context& context, const Tensor& x, const RowList& sequences, bool back) {
  const std::int64_t n = x.dim(1), rows = x.dim(0) * n, width = rows == 0 ? 0 : x.numel() / rows;
  const Tensor in = x.contiguous(context).reshape({rows, width}), y = Tensor::zeros(context, in.shape(), x.dtype());
  const Stretches stretches(sequences, n);
  const kernels::RunningSum io{in, y, back, &stretches};
  visit_device(context, io, [&]<Device D>() { kernels::running_sums<D>(context, io); });
  return y.reshape(x.shape());
}

void backward(Tape& tape, Node& node) {
  const auto& sequences = std::any_cast<const RowList&>(node.attributes);
  tape.accumulate(node.inputs[0], cumulated(tape.context(), node.grad(), sequences, true));
}

constexpr Op kCumsum{"cumsum", backward};

}  // namespace

Var cumsum(Tape& tape, const Var& x, const Sequences& rows) {
  if (x.value().rank() < 2) fail(ErrorCode::shape, "cumsum of shape " + x.shape().text(), {}, "(b, n, ...)");
  const RowList sequences = rows.rows(x.dim(0), x.dim(1), "rows");
  return tape.record(kCumsum, {x}, cumulated(tape.context(), x.value(), sequences, false), {}, sequences);
}

}  // namespace fovea

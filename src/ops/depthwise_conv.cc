#include "core/visit_device.h"
#include "ops/depthwise_conv_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

struct Conv {
  RowList sequences;
  std::vector<Span> spans;
  std::int64_t first;
};

// x (b, n, heads, d), copied only where a row of heads d is not dense.
Tensor whole_rows(const Context& context, const Tensor& x) {
  const bool dense = (x.stride(3) == 1 || x.dim(3) == 1) && (x.stride(2) == x.dim(3) || x.dim(2) == 1);
  return dense ? x : x.contiguous(context);
}

// Every channel's taps: w (heads, taps) or (heads, d, taps) -> (taps, heads d), in the wide type.
Tensor spread_taps(const Context& context, const Tensor& w, const Shape& x) {
  const Tensor from = w.to(context, wide_type(w.dtype())).contiguous(context);
  const kernels::Taps io{from, Tensor::empty(context, {w.dim(-1), x.dim(2) * x.dim(3)}, from.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::spread_taps<D>(context, io); });
  return io.to;
}

// The reverse for gradients: sums over the channels that share taps.
Tensor gather_taps(const Context& context, const Tensor& taps, const Shape& w) {
  const kernels::Taps io{taps, Tensor::zeros(context, w, taps.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::gather_taps<D>(context, io); });
  return io.to;
}

// The last tap first.
Tensor reversed(const Context& context, const Tensor& taps) {
  const Tensor out = Tensor::empty(context, taps.shape(), taps.dtype());
  const std::int64_t count = taps.dim(0);
  for (std::int64_t t = 0; t < count; ++t) out.select(0, t).copy_from(taps.select(0, count - 1 - t));
  return out;
}

void convolve(const Context& context, const kernels::ConvTensors& io) {
  visit_device(context, io, [&]<Device D>() { kernels::convolve<D>(context, io); });
}

// saved: x and the taps of every channel.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& conv = std::any_cast<const Conv&>(node.attributes);
  const Tensor &x = node.saved[0], &taps = node.saved[1], g = node.grad().contiguous(context);
  if (node.wants(0)) {
    // x_j went to the rows i = j - first - t.
    const Tensor dx = Tensor::empty(context, x.shape(), x.dtype());
    const std::int64_t first = 1 - conv.first - taps.dim(0);
    convolve(context, {conv.spans, first, g, reversed(context, taps), dx});
    tape.accumulate(node.inputs[0], dx);
  }
  if (!node.wants(1)) return;
  const kernels::ConvTensors io{conv.spans, conv.first, x, taps, g};
  const Tensor d_taps =
      visit_device(context, io, [&]<Device D>() { return kernels::tap_gradients<D>(context, io, conv.sequences); });
  tape.accumulate(node.inputs[1], gather_taps(context, d_taps, node.inputs[1]->shape));
}

constexpr Op kDepthwiseConv{"depthwise_conv", backward};

void check_conv(const Var& x, const Var& w) {
  const int rank = w.value().rank();
  const bool fits = x.value().rank() == 4 && (rank == 2 || (rank == 3 && w.dim(1) == x.dim(3))) &&
                    w.dim(0) == x.dim(2) && w.dim(-1) > 0 && wide_type(w.dtype()) == wide_type(x.dtype());
  if (!fits)
    fail(ErrorCode::shape,
         "depthwise_conv of " + std::string(name_of(x.dtype())) + x.shape().text() + " by " +
             std::string(name_of(w.dtype())) + w.shape().text(),
         {}, "(b, n, heads, d) by (heads, taps) or (heads, d, taps)");
}

}  // namespace

Var depthwise_conv(Tape& tape, const Var& x, const Var& w, const DepthwiseConv& options) {
  check_conv(x, w);
  const Context& context = tape.context();
  const Tensor in = whole_rows(context, x.value()), taps = spread_taps(context, w.value(), x.shape());
  const Conv conv{options.rows.rows(x.dim(0), x.dim(1), "rows"), spans_of(options.rows, x.dim(0), x.dim(1)),
                  -(options.causal ? taps.dim(0) - 1 : taps.dim(0) / 2)};
  const Tensor y = Tensor::empty(context, in.shape(), x.dtype());
  convolve(context, {conv.spans, conv.first, in, taps, y});
  return tape.record(kDepthwiseConv, {x, w}, y, {in, taps}, conv);
}

}  // namespace fovea

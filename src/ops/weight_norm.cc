#include <cmath>

#include "fovea/ops.h"
#include "ops/channel_cpu.h"
#include "ops/column_sum_cpu.h"
#include "ops/work.h"

namespace fovea {
namespace {

Tensor as_rows(const Context& context, const Tensor& t) { return t.contiguous(context).reshape({-1, t.dim(-1)}); }

void mix_rows(const Context& context, const cpu::Mix& io, const Tensor& numbers) {
  for_rows(context, io.x.dim(0), io.x.dim(1), [&](std::int64_t begin, std::int64_t end) {
    cpu::mix_channels(io, numbers.raw(), {begin, end});
  });
}

// saved: v (rows, out), s and the lengths of the columns. With u = v / |v|: ds = dw.u and dv = s / |v| (dw - u (dw.u)).
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &v = node.saved[0], &s = node.saved[1], &length = node.saved[2];
  const Tensor g = as_rows(context, node.grad()), dots = cpu::column_sums(context, {g, v});
  const std::int64_t out = v.dim(1);
  const Tensor ds = Tensor::empty(context, {out}, s.dtype());
  const Tensor numbers = Tensor::zeros(context, {cpu::kCoefficients, out}, s.dtype());
  visit_wide(s.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < out; ++c) {
      const R l = length.data<R>()[c], inverse = l > 0 ? 1 / l : R(0), dot = dots.data<R>()[c] * inverse;
      const R factor = s.data<R>()[c] * inverse;
      ds.data<R>()[c] = dot;
      numbers.data<R>()[cpu::kFromG * out + c] = factor;
      numbers.data<R>()[cpu::kFromX * out + c] = -factor * dot * inverse;
    }
  });
  if (node.wants(1)) tape.accumulate(node.inputs[1], ds);
  if (!node.wants(0)) return;
  const Tensor dv = Tensor::empty(context, v.shape(), v.dtype());
  mix_rows(context, {v, g, dv}, numbers);
  tape.accumulate(node.inputs[0], dv.reshape(node.inputs[0]->shape));
}

constexpr Op kWeightNorm{"weight_norm", backward};

}  // namespace

Var weight_norm(Tape& tape, const Var& v, const Var& s) {
  if (v.value().rank() < 2 || v.dim(-1) == 0 || s.shape() != Shape{v.dim(-1)} ||
      wide_type(v.dtype()) != wide_type(s.dtype()))
    fail(ErrorCode::shape,
         "weight_norm of " + std::string(name_of(v.dtype())) + v.shape().text() + " and lengths of " +
             std::string(name_of(s.dtype())) + s.shape().text(),
         {}, "(..., out) and (out)");
  const Context& context = tape.context();
  const Tensor in = as_rows(context, v.value()),
               lengths = s.value().to(context, wide_type(s.dtype())).contiguous(context);
  const Tensor norms = cpu::column_sums(context, {in, in});
  const std::int64_t out = in.dim(1);
  const Tensor numbers = Tensor::zeros(context, {cpu::kCoefficients, out}, norms.dtype());
  visit_wide(norms.dtype(), [&]<class R>() {
    for (std::int64_t c = 0; c < out; ++c) {
      R& norm = norms.data<R>()[c];
      norm = std::sqrt(norm);
      numbers.data<R>()[cpu::kFromX * out + c] = norm > 0 ? lengths.data<R>()[c] / norm : R(0);
    }
  });
  const Tensor w = Tensor::empty(context, in.shape(), in.dtype());
  mix_rows(context, {in, {}, w}, numbers);
  return tape.record(kWeightNorm, {v, s}, w.reshape(v.shape()), {in, lengths, norms});
}

}  // namespace fovea

#include "core/visit_device.h"
#include "fovea/ops.h"
#include "ops/weight_norm_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

Tensor as_rows(const Context& context, const Tensor& t) { return t.contiguous(context).reshape({-1, t.dim(-1)}); }

// saved: v (rows, out), s and the lengths of the columns.
void backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor &v = node.saved[0], &s = node.saved[1];
  const kernels::WeightNormVjp io{as_rows(context, node.grad()),
                                  v,
                                  s,
                                  node.saved[2],
                                  Tensor::empty(context, s.shape(), s.dtype()),
                                  node.wants(0) ? Tensor::empty(context, v.shape(), v.dtype()) : Tensor()};
  visit_device(context, io, [&]<Device D>() { kernels::weight_norm_backward<D>(context, io); });
  if (node.wants(1)) tape.accumulate(node.inputs[1], io.ds);
  if (node.wants(0)) tape.accumulate(node.inputs[0], io.dv.reshape(node.inputs[0]->shape));
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
  const kernels::WeightNorm io{in, lengths, Tensor::empty(context, lengths.shape(), lengths.dtype()),
                               Tensor::empty(context, in.shape(), in.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::weight_norm<D>(context, io); });
  return tape.record(kWeightNorm, {v, s}, io.w.reshape(v.shape()), {in, lengths, io.norms});
}

}  // namespace fovea

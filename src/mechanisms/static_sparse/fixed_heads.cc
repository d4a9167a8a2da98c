#include "mechanisms/static_sparse/fixed_heads.h"

#include "core/visit_device.h"
#include "mechanisms/results.h"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

void given_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& call = std::any_cast<const kernels::GivenCall&>(node.attributes);
  const kernels::ApplyGivenVjp io{dense_rows(context, node.grad()),
                                  gradient_like(tape, node.inputs[0], node.saved[0], call.keys), &call};
  visit_device(context, io, [&]<Device D>() { kernels::apply_given_backward<D>(context, io); });
  tape.accumulate(node.inputs[0], io.dv);
}

constexpr Op kGiven{"given_heads", given_backward};

}  // namespace

Var apply_given(const Call& call, const GivenHeads& given) {
  const Context& context = call.tape.context();
  const Tensor v = dense_rows(context, call.v.value());
  const kernels::GivenCall rows{given, call.q.dim(2), call.queries, call.keys};
  const Shape shape{call.q.dim(0), call.q.dim(1), std::ssize(given.heads), v.dim(3)};
  const kernels::ApplyGiven io{v, output_like(context, shape, v.dtype(), call.queries), &rows};
  visit_device(context, io, [&]<Device D>() { kernels::apply_given<D>(context, io); });
  return call.tape.record(kGiven, {call.v}, io.o, {v}, rows);
}

}  // namespace fovea

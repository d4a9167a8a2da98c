#include "ops/index.h"
#include "ops/rows_kernels.h"
#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// x (b, n, heads, d) and an index (b, m, heads) of its rows, checked; the index dense.
Tensor check_rows(const Context& context, const Var& x, const Index& index) {
  const Tensor& rows = index.entries;
  const bool fits = x.value().rank() == 4 && rows.rank() == 3 && rows.dim(0) == x.dim(0) && rows.dim(2) == x.dim(2);
  if (!fits)
    fail(ErrorCode::shape, "rows of " + x.shape().text() + " by an index of shape " + rows.shape().text(), "index",
         "(b, n, heads, d) by (b, m, heads)");
  const std::int64_t at = first_outside(context, index, -1, x.dim(1));
  if (at < 0) return taken_along(context, rows);
  const auto [row, where] = wrong_entry(dense_entries(context, rows), at, "index");
  fail(ErrorCode::bad_input, "row " + std::to_string(row) + " of " + std::to_string(x.dim(1)), where,
       "0 to " + std::to_string(x.dim(1) - 1) + ", or -1 for none");
}

Tensor taken(const Context& context, const Tensor& x, const Tensor& index) {
  const kernels::TakeRows io{dense_rows(context, x), index,
                             Tensor::empty(context, {x.dim(0), index.dim(1), x.dim(2), x.dim(3)}, x.dtype())};
  visit_device(context, io, [&]<Device D>() { kernels::take_rows<D>(context, io); });
  return io.to;
}

void put(const Context& context, const Tensor& values, const Tensor& index, const Tensor& to) {
  const kernels::PutRows io{values, index, to};
  visit_device(context, io, [&]<Device D>() { kernels::put_rows<D>(context, io); });
}

// saved: the index.
void take_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const std::shared_ptr<Slot>& slot = node.inputs[0];
  const Tensor dx = Tensor::zeros(context, slot->shape, wide_type(slot->dtype));
  const kernels::AddRows io{dense_rows(context, node.grad()), node.saved[0], dx};
  visit_device(context, io, [&]<Device D>() { kernels::add_rows<D>(context, io); });
  tape.accumulate(slot, dx);
}

void put_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  if (node.wants(1)) tape.accumulate(node.inputs[1], taken(context, node.grad(), node.saved[0]));
  if (!node.wants(0)) return;
  const Tensor d_base = node.grad().clone(context);
  put(context, {}, node.saved[0], d_base);
  tape.accumulate(node.inputs[0], d_base);
}

constexpr Op kTakeRows{"take_rows", take_backward};
constexpr Op kPutRows{"put_rows", put_backward};

}  // namespace

Var take_rows(Tape& tape, const Var& x, const Index& index) {
  const Tensor rows = check_rows(tape.context(), x, index);
  return tape.record(kTakeRows, {x}, taken(tape.context(), x.value(), rows), {rows});
}

Var put_rows(Tape& tape, const Var& base, const Index& index, const Var& values) {
  const Context& context = tape.context();
  const Tensor rows = check_rows(context, base, index);
  const Shape shape = base.shape().with(1, rows.dim(1));
  if (values.shape() != shape || values.dtype() != base.dtype())
    fail(ErrorCode::shape,
         "rows " + std::string(name_of(values.dtype())) + values.shape().text() + " to put into " +
             std::string(name_of(base.dtype())) + base.shape().text(),
         "values", shape.text() + " of the same dtype");
  check_once(context, index, base.dim(1));
  const Tensor out = base.value().clone(context);
  put(context, dense_rows(context, values.value()), rows, out);
  return tape.record(kPutRows, {base, values}, out, {rows});
}

}  // namespace fovea

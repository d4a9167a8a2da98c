#include <vector>

#include "core/wide.h"
#include "fovea/ops.h"
#include "ops/index.h"
#include "ops/table_kernels.h"

namespace fovea {
namespace {

// The rows of a table of `limit`, dense. `what` names one entry in errors, `where` the whole of them.
Tensor check_index(const Context& context, const Index& index, std::int64_t limit, const std::string& what,
                   const std::string& where) {
  const Tensor& entries = index.entries;
  if (entries.dtype() != DType::i32)
    fail(ErrorCode::usage, where + " must be i32, got " + std::string(name_of(entries.dtype())), where);
  const std::int64_t at = first_outside(context, index, 0, limit);
  if (at < 0) return taken_along(context, entries);
  const auto [row, place] = wrong_entry(dense_entries(context, entries), at, where);
  fail(ErrorCode::bad_input,
       what + " " + std::to_string(row) + " is outside the table of " + std::to_string(limit) + " rows", place,
       "0 to " + std::to_string(limit - 1));
}

// index.shape + the axes of x after the first.
Shape gathered_shape(const Tensor& x, const Tensor& index) {
  std::vector<std::int64_t> dims(index.shape().dims().begin(), index.shape().dims().end());
  for (int i = 1; i < x.rank(); ++i) dims.push_back(x.dim(i));
  return Shape(std::span<const std::int64_t>(dims));
}

Tensor gather_rows(const Context& context, const Tensor& x, const Tensor& index) {
  const kernels::GatherRows io{x.contiguous(context), index,
                               Tensor::empty(context, gathered_shape(x, index), x.dtype())};
  if (io.out.numel() > 0) visit_device(context, io, [&]<Device D>() { kernels::gather_rows<D>(context, io); });
  return io.out;
}

// saved: the index.
void gather_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& index = node.saved[0];
  const std::shared_ptr<Slot>& slot = node.inputs[0];
  const std::int64_t rows = slot->shape.dim(0), width = rows == 0 ? 0 : slot->shape.numel() / rows;
  const bool direct = slot->leaf || slot->dtype == wide_type(slot->dtype);  // else sum in the wide type and convert
  const Tape::Target target = direct ? tape.target(slot) : Tape::Target{Tensor::empty(context, slot->shape), true};
  if (target.fresh) target.grad.fill(0.0);
  if (node.grad().numel() > 0) {
    const Tensor g = node.grad().contiguous(context).reshape({index.numel(), width});
    const kernels::ScatterAdd io{g, index, target.grad.reshape({rows, width})};
    visit_device(context, io, [&]<Device D>() { kernels::scatter_add<D>(context, io); });
  }
  if (!direct) tape.accumulate(slot, target.grad);
}

constexpr Op kEmbedding{"embedding", gather_backward};
constexpr Op kGather{"gather", gather_backward};

}  // namespace

Var embedding(Tape& tape, const Var& table, const Index& ids) {
  if (table.value().rank() != 2)
    fail(ErrorCode::shape, "embedding table of shape " + table.shape().text(), "table", "(vocabulary, width)");
  const Tensor index = check_index(tape.context(), ids, table.dim(0), "token", "tokens");
  return tape.record(kEmbedding, {table}, gather_rows(tape.context(), table.value(), index), {index});
}

Var gather(Tape& tape, const Var& x, const Index& index) {
  if (x.value().rank() == 0) fail(ErrorCode::shape, "gather from a scalar");
  const Tensor rows = check_index(tape.context(), index, x.dim(0), "index", "index");
  return tape.record(kGather, {x}, gather_rows(tape.context(), x.value(), rows), {rows});
}

}  // namespace fovea

#include <vector>

#include "core/wide.h"
#include "fovea/ops.h"
#include "ops/embedding.h"
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

// add(g (rows, width), table (rows, width)) adds the node's gradient to that of a table, in the wide type.
template <class Add>
void add_to_table(Tape& tape, const Node& node, std::size_t input, const Add& add) {
  const Context& context = tape.context();
  const std::shared_ptr<Slot>& slot = node.inputs[input];
  const std::int64_t rows = slot->shape.dim(0), width = rows == 0 ? 0 : slot->shape.numel() / rows;
  const bool direct = slot->leaf || slot->dtype == wide_type(slot->dtype);  // else sum in the wide type and convert
  const Tape::Target target = direct ? tape.target(slot) : Tape::Target{Tensor::empty(context, slot->shape), true};
  if (target.fresh) target.grad.fill(0.0);
  if (node.grad().numel() > 0)
    add(node.grad().contiguous(context).reshape({-1, width}), target.grad.reshape({rows, width}));
  if (!direct) tape.accumulate(slot, target.grad);
}

void scatter(const Context& context, const Tensor& g, const Tensor& index, const Tensor& table) {
  const kernels::ScatterAdd io{g, index, table};
  visit_device(context, io, [&]<Device D>() { kernels::scatter_add<D>(context, io); });
}

// saved: the index.
void gather_backward(Tape& tape, Node& node) {
  add_to_table(tape, node, 0,
               [&](const Tensor& g, const Tensor& table) { scatter(tape.context(), g, node.saved[0], table); });
}

// saved: the indices of both tables.
void sum_backward(Tape& tape, Node& node) {
  constexpr std::size_t kFewRuns = 256;  // each row of the table looks at all of them
  const Context& context = tape.context();
  const auto& runs = std::any_cast<const RowList&>(node.attributes);
  if (node.wants(1))
    add_to_table(tape, node, 1, [&](const Tensor& g, const Tensor& table) {
      if (runs.empty() || runs.size() > kFewRuns) return scatter(context, g, node.saved[1], table);
      const kernels::AddRuns io{g, table, &runs, node.outputs[0]->shape.dim(1)};
      visit_device(context, io, [&]<Device D>() { kernels::add_runs<D>(context, io); });
    });
  if (node.wants(0))
    add_to_table(tape, node, 0,
                 [&](const Tensor& g, const Tensor& table) { scatter(context, g, node.saved[0], table); });
}

constexpr Op kEmbedding{"embedding", gather_backward};
constexpr Op kEmbeddingSum{"embedding", sum_backward};
constexpr Op kGather{"gather", gather_backward};

void check_table(const Var& table) {
  if (table.value().rank() != 2)
    fail(ErrorCode::shape, "embedding table of shape " + table.shape().text(), "table", "(vocabulary, width)");
}

}  // namespace

Var embedding(Tape& tape, const Var& table, const Index& ids) {
  check_table(table);
  const Tensor index = check_index(tape.context(), ids, table.dim(0), "token", "tokens");
  return tape.record(kEmbedding, {table}, gather_rows(tape.context(), table.value(), index), {index});
}

Var embedding_sum(Tape& tape, const Var& tokens, const Index& ids, const RowPlaces& places, DType dtype) {
  if (!places.table.defined()) return cast(tape, embedding(tape, tokens, ids), dtype);
  const Context& context = tape.context();
  for (const Var* table : {&tokens, &places.table}) check_table(*table);
  if (tokens.dim(1) != places.table.dim(1) || tokens.dtype() != places.table.dtype() ||
      tokens.dtype() != wide_type(dtype) || ids.entries.shape() != places.index.entries.shape())
    fail(ErrorCode::shape, "rows of tables " + tokens.shape().text() + " and " + places.table.shape().text() +
                               " by indices " + ids.entries.shape().text() + " and " +
                               places.index.entries.shape().text());
  const Tensor index = check_index(context, ids, tokens.dim(0), "token", "tokens"),
               where = check_index(context, places.index, places.table.dim(0), "position", "positions");
  const kernels::GatherSum io{tokens.value().contiguous(context), index, places.table.value().contiguous(context),
                              where, Tensor::empty(context, gathered_shape(tokens.value(), index), dtype)};
  if (io.out.numel() > 0) visit_device(context, io, [&]<Device D>() { kernels::gather_sum<D>(context, io); });
  return tape.record(kEmbeddingSum, {tokens, places.table}, io.out, {index, where}, places.runs);
}

Var gather(Tape& tape, const Var& x, const Index& index) {
  if (x.value().rank() == 0) fail(ErrorCode::shape, "gather from a scalar");
  const Tensor rows = check_index(tape.context(), index, x.dim(0), "index", "index");
  return tape.record(kGather, {x}, gather_rows(tape.context(), x.value(), rows), {rows});
}

}  // namespace fovea

#include <algorithm>
#include <cstring>
#include <vector>

#include "fovea/ops.h"
#include "ops/column_sum_cpu.h"
#include "ops/work.h"

namespace fovea {
namespace {

// `what` names one entry in errors, `where` the whole of them.
void check_index(const Tensor& index, std::int64_t limit, const std::string& what, const std::string& where) {
  if (index.dtype() != DType::i32)
    fail(ErrorCode::usage, where + " must be i32, got " + std::string(name_of(index.dtype())), where);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const std::int32_t row = index.data<std::int32_t>()[i];
    if (row < 0 || row >= limit)
      fail(ErrorCode::bad_input,
           what + " " + std::to_string(row) + " is outside the table of " + std::to_string(limit) + " rows",
           where + "[" + std::to_string(i) + "]", "0 to " + std::to_string(limit - 1));
  }
}

// index.shape + the axes of x after the first.
Shape gathered_shape(const Tensor& x, const Tensor& index) {
  std::vector<std::int64_t> dims(index.shape().dims().begin(), index.shape().dims().end());
  for (int i = 1; i < x.rank(); ++i) dims.push_back(x.dim(i));
  return Shape(std::span<const std::int64_t>(dims));
}

Tensor gather_rows(const Context& context, const Tensor& x, const Tensor& index) {
  const Tensor from = x.contiguous(context), out = Tensor::empty(context, gathered_shape(x, index), x.dtype());
  if (out.numel() == 0) return out;
  const std::int64_t width = out.numel() / index.numel();
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(x.dtype());
  const std::int32_t* rows = index.data<std::int32_t>();
  for_rows(context, index.numel(), width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(static_cast<std::byte*>(out.raw()) + static_cast<std::size_t>(i) * bytes,
                  static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(rows[i]) * bytes, bytes);
  });
  return out;
}

// The positions of an index, sorted by the row they name. Those of one row are cut into stretches of bounded length, so
// that a frequent token is shared between threads; the cuts depend on the index alone.
struct Stretch {
  std::int64_t row, begin, end;  // places in the sorted order
};
struct Sorted {
  std::vector<std::int64_t> order;  // stable
  std::vector<Stretch> stretches;
  std::vector<std::int64_t> first;  // stretch of each row that occurs; one more at the end
};

Sorted sort_index(const Tensor& index, std::int64_t rows) {
  constexpr std::int64_t kStretch = 256;
  const std::int32_t* row_of = index.data<std::int32_t>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<std::int64_t> start(at(rows) + 1, 0);
  for (std::int64_t i = 0; i < index.numel(); ++i) ++start[at(row_of[i]) + 1];
  Sorted sorted;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t begin = start[at(r)], end = start[at(r) + 1] += begin;
    if (begin < end) sorted.first.push_back(static_cast<std::int64_t>(sorted.stretches.size()));
    for (std::int64_t i = begin; i < end; i += kStretch)
      sorted.stretches.push_back({r, i, std::min(end, i + kStretch)});
  }
  sorted.first.push_back(static_cast<std::int64_t>(sorted.stretches.size()));
  sorted.order.resize(at(index.numel()));
  for (std::int64_t i = 0; i < index.numel(); ++i) sorted.order[at(start[at(row_of[i])]++)] = i;
  return sorted;
}

// table (rows, width) += the rows of g (count, width) that belong to each: first the sum of every stretch, then of the
// stretches of a row, in order. Both have the wide type of g.
void scatter_add(const Context& context, const Tensor& g, const Sorted& sorted, const Tensor& table) {
  const std::int64_t width = g.dim(1), count = static_cast<std::int64_t>(sorted.stretches.size());
  const cpu::ColumnSum sums{Tensor::zeros(context, {count, width}, wide_type(g.dtype()), Lifetime::scratch), {}};
  const std::int64_t row_bytes = width * static_cast<std::int64_t>(size_of(table.dtype()));
  const auto row_of = [row_bytes](const Tensor& t, std::int64_t row) {
    return static_cast<std::byte*>(t.raw()) + row * row_bytes;
  };
  const std::int64_t mean_length = std::max<std::int64_t>(1, g.dim(0) / std::max<std::int64_t>(1, count));
  for_rows(context, count, width * mean_length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const Stretch& stretch = sorted.stretches[static_cast<std::size_t>(s)];
      const std::span positions(sorted.order.data() + stretch.begin, sorted.order.data() + stretch.end);
      cpu::add_listed(g, positions, row_of(sums.x, s));
    }
  });
  for_rows(context, static_cast<std::int64_t>(sorted.first.size()) - 1, width,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               const std::int64_t from = sorted.first[static_cast<std::size_t>(r)],
                                  to = sorted.first[static_cast<std::size_t>(r) + 1];
               cpu::add_columns(sums, from, to, row_of(table, sorted.stretches[static_cast<std::size_t>(from)].row));
             }
           });
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
    scatter_add(context, g, sort_index(index, rows), target.grad.reshape({rows, width}));
  }
  if (!direct) tape.accumulate(slot, target.grad);
}

constexpr Op kEmbedding{"embedding", gather_backward};
constexpr Op kGather{"gather", gather_backward};

}  // namespace

Var embedding(Tape& tape, const Var& table, const Tensor& ids) {
  if (table.value().rank() != 2)
    fail(ErrorCode::shape, "embedding table of shape " + table.shape().text(), "table", "(vocabulary, width)");
  const Tensor index = ids.contiguous(tape.context());
  check_index(index, table.dim(0), "token", "tokens");
  return tape.record(kEmbedding, {table}, gather_rows(tape.context(), table.value(), index), {index});
}

Var gather(Tape& tape, const Var& x, const Tensor& index) {
  if (x.value().rank() == 0) fail(ErrorCode::shape, "gather from a scalar");
  const Tensor rows = index.contiguous(tape.context());
  check_index(rows, x.dim(0), "index", "index");
  return tape.record(kGather, {x}, gather_rows(tape.context(), x.value(), rows), {rows});
}

}  // namespace fovea

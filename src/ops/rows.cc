#include <vector>

#include "ops/sequence.h"
#include "ops/work.h"

namespace fovea {
namespace {

// x (b, n, heads, d) and an index (b, m, heads) of its rows, checked; the index dense.
Tensor check_rows(const Context& context, const Var& x, const Tensor& index) {
  const bool fits = x.value().rank() == 4 && index.rank() == 3 && index.dim(0) == x.dim(0) && index.dim(2) == x.dim(2);
  if (!fits)
    fail(ErrorCode::shape, "rows of " + x.shape().text() + " by an index of shape " + index.shape().text(), "index",
         "(b, n, heads, d) by (b, m, heads)");
  const Tensor rows = index.contiguous(context);
  const std::int32_t* row = rows.data<std::int32_t>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    if (row[i] < -1 || row[i] >= x.dim(1))
      fail(ErrorCode::bad_input, "row " + std::to_string(row[i]) + " of " + std::to_string(x.dim(1)),
           "index[" + std::to_string(i) + "]", "0 to " + std::to_string(x.dim(1) - 1) + ", or -1 for none");
  return rows;
}

void check_disjoint(const Tensor& index, std::int64_t n) {
  const std::int64_t picks = index.dim(1), heads = index.dim(2);
  std::vector<bool> taken(static_cast<std::size_t>(index.dim(0) * n * heads), false);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const std::int32_t row = index.data<std::int32_t>()[i];
    if (row < 0) continue;
    auto seen = taken[static_cast<std::size_t>((i / (picks * heads) * n + row) * heads + i % heads)];
    if (seen)
      fail(ErrorCode::bad_input, "row " + std::to_string(row) + " is put twice", "index[" + std::to_string(i) + "]");
    seen = true;
  }
}

// Where rows lie: tensors (b, rows, heads, d) with a dense last axis.
struct Picks {
  std::int64_t n, picks, heads, d;
  const std::int32_t* index;  // (b, picks, heads)

  Picks(const Tensor& index, const Tensor& x)
      : n(x.dim(1)), picks(index.dim(1)), heads(index.dim(2)), d(x.dim(3)), index(index.data<std::int32_t>()) {}

  template <class T>
  static T* at(const Tensor& t, std::int64_t item, std::int64_t row, std::int64_t head) {
    return t.data<T>() + item * t.stride(0) + row * t.stride(1) + head * t.stride(2);
  }
  // body(item, pick, head, row) for the picks [begin, end) of (b, picks, heads).
  template <class Body>
  void each(std::int64_t begin, std::int64_t end, Body&& body) const {
    for (std::int64_t i = begin; i < end; ++i)
      body(i / (picks * heads), i / heads % picks, i % heads, std::int64_t{index[i]});
  }
};

Tensor taken(const Context& context, const Tensor& x, const Tensor& index) {
  const Tensor from = dense_rows(context, x);
  const Tensor out = Tensor::empty(context, {x.dim(0), index.dim(1), x.dim(2), x.dim(3)}, x.dtype());
  const Picks picks(index, from);
  visit_float(x.dtype(), [&]<class T>() {
    for_rows(context, index.numel(), picks.d, [&](std::int64_t begin, std::int64_t end) {
      picks.each(begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        T* to = Picks::at<T>(out, item, pick, head);
        if (row < 0)
          std::fill_n(to, picks.d, T(0.0f));
        else
          std::copy_n(Picks::at<T>(from, item, row, head), picks.d, to);
      });
    });
  });
  return out;
}

// sums (b, n, heads, d) += g (b, picks, heads, d) at the picked rows. One task for each item and head: it owns its
// rows.
void add_picked(const Context& context, const Tensor& g, const Tensor& index, const Tensor& sums) {
  const ZoneTimer timer(context.zones(), Zone::elementwise);
  const Picks picks(index, sums);
  visit_float(g.dtype(), [&]<class T>() {
    using R = Wide<T>;
    parallel_for(context, sums.dim(0) * picks.heads, [&](std::int64_t task) {
      const std::int64_t item = task / picks.heads, head = task % picks.heads;
      for (std::int64_t pick = 0; pick < picks.picks; ++pick) {
        const std::int64_t row = picks.index[(item * picks.picks + pick) * picks.heads + head];
        if (row < 0) continue;
        const T* from = Picks::at<T>(g, item, pick, head);
        R* to = Picks::at<R>(sums, item, row, head);
        for (std::int64_t c = 0; c < picks.d; ++c) to[c] += static_cast<R>(from[c]);
      }
    });
  });
}

// to (b, n, heads, d), dense: its picked rows become those of `values`, or 0 where that is undefined.
void put(const Context& context, const Tensor& values, const Tensor& index, const Tensor& to) {
  const Picks picks(index, to);
  visit_float(to.dtype(), [&]<class T>() {
    for_rows(context, index.numel(), picks.d, [&](std::int64_t begin, std::int64_t end) {
      picks.each(begin, end, [&](std::int64_t item, std::int64_t pick, std::int64_t head, std::int64_t row) {
        if (row < 0) return;
        T* row_of_to = Picks::at<T>(to, item, row, head);
        if (values.defined())
          std::copy_n(Picks::at<T>(values, item, pick, head), picks.d, row_of_to);
        else
          std::fill_n(row_of_to, picks.d, T(0.0f));
      });
    });
  });
}

// saved: the index.
void take_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const std::shared_ptr<Slot>& slot = node.inputs[0];
  const Tensor dx = Tensor::zeros(context, slot->shape, wide_type(slot->dtype));
  add_picked(context, dense_rows(context, node.grad()), node.saved[0], dx);
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

Var take_rows(Tape& tape, const Var& x, const Tensor& index) {
  const Tensor rows = check_rows(tape.context(), x, index);
  return tape.record(kTakeRows, {x}, taken(tape.context(), x.value(), rows), {rows});
}

Var put_rows(Tape& tape, const Var& base, const Tensor& index, const Var& values) {
  const Context& context = tape.context();
  const Tensor rows = check_rows(context, base, index);
  const Shape shape = base.shape().with(1, index.dim(1));
  if (values.shape() != shape || values.dtype() != base.dtype())
    fail(ErrorCode::shape,
         "rows " + std::string(name_of(values.dtype())) + values.shape().text() + " to put into " +
             std::string(name_of(base.dtype())) + base.shape().text(),
         "values", shape.text() + " of the same dtype");
  check_disjoint(rows, base.dim(1));
  const Tensor out = base.value().clone(context);
  put(context, dense_rows(context, values.value()), rows, out);
  return tape.record(kPutRows, {base, values}, out, {rows});
}

}  // namespace fovea

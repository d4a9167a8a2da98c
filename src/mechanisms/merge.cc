#include "tile/merge.h"
#include "fovea/attention.h"

namespace fovea {
namespace {

enum Saved : std::size_t { kA, kLseA, kB, kLseB, kO, kLse };

void merge_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto dense = [&](const Tensor& t) { return t.defined() ? t.contiguous(context) : t; };
  const Tensor d_o = dense(node.grad(0)), d_lse = dense(node.grad(1));
  for (const std::size_t part : {kA, kB}) {
    const Tensor &o = node.saved[part], &lse = node.saved[part + 1];
    const tile::PartialOutput d_part{Tensor::empty(context, o.shape(), o.dtype()),
                                     Tensor::empty(context, lse.shape(), lse.dtype())};
    tile::merge_backward(context, {{node.saved[kO], node.saved[kLse]}, {o, lse}, d_o, d_lse, d_part});
    tape.accumulate(node.inputs[part], d_part.o);
    tape.accumulate(node.inputs[part + 1], d_part.lse);
  }
}

constexpr Op kMerge{"merge", merge_backward};

}  // namespace

Partial merge(Tape& tape, const Partial& a, const Partial& b) {
  if (a.output.shape() != b.output.shape() || a.lse.shape() != b.lse.shape() || a.output.dtype() != b.output.dtype())
    fail(ErrorCode::shape, "merge of parts with shapes " + a.output.shape().text() + " and " + b.output.shape().text());
  const Context& context = tape.context();
  const auto dense = [&](const Partial& part) {
    return tile::PartialOutput{part.output.value().contiguous(context), part.lse.value().contiguous(context)};
  };
  const tile::PartialOutput x = dense(a), y = dense(b);
  const tile::PartialOutput to{Tensor::empty(context, x.o.shape(), x.o.dtype()),
                               Tensor::empty(context, x.lse.shape(), x.lse.dtype())};
  tile::merge(context, x, y, to);
  const std::vector<Var> inputs{a.output, a.lse, b.output, b.lse};
  const std::vector<Var> results = tape.record(kMerge, inputs, {to.o, to.lse}, {x.o, x.lse, y.o, y.lse, to.o, to.lse});
  return {results[0], results[1]};
}

}  // namespace fovea

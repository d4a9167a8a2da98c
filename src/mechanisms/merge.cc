#include "tile/merge.h"

#include <utility>

#include "fovea/attention.h"

namespace fovea {
namespace {

enum Saved : std::size_t { kA, kLseA, kB, kLseB, kLse };

void merge_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto dense = [&](const Tensor& t) { return t.defined() ? t.contiguous(context) : t; };
  const Tensor d_o = dense(node.grad(0)), d_lse = dense(node.grad(1));
  const auto saved = [&](std::size_t part) { return tile::PartialOutput{node.saved[part], node.saved[part + 1]}; };
  for (const auto& [own, other] : {std::pair(kA, kB), std::pair(kB, kA)}) {
    const tile::PartialOutput part = saved(own);
    const tile::PartialOutput d_part{Tensor::empty(context, part.o.shape(), part.o.dtype()),
                                     Tensor::empty(context, part.lse.shape(), part.lse.dtype())};
    tile::merge_backward(context, {part, saved(other), node.saved[kLse], d_o, d_lse, d_part});
    tape.accumulate(node.inputs[own], d_part.o);
    tape.accumulate(node.inputs[own + 1], d_part.lse);
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
  const std::vector<Var> results = tape.record(kMerge, inputs, {to.o, to.lse}, {x.o, x.lse, y.o, y.lse, to.lse});
  return {results[0], results[1]};
}

}  // namespace fovea

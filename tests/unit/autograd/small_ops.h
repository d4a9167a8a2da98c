#pragma once

#include "fovea/autograd.h"

namespace fovea::testing {

// y = x^2, one element after another: an operation small enough to see through.
inline void square_backward(Tape& tape, Node& node) {
  const Tensor g = node.grad().contiguous(tape.context()), &x = node.saved[0];
  const Tensor dx = Tensor::empty(tape.context(), x.shape(), x.dtype());
  for (std::int64_t i = 0; i < x.numel(); ++i) dx.data<double>()[i] = 2.0 * x.data<double>()[i] * g.data<double>()[i];
  tape.accumulate(node.inputs[0], dx);
}
inline constexpr Op kSquare{"square", square_backward};

inline Var square(Tape& tape, const Var& x) {
  const Tensor in = x.value().contiguous(tape.context()), y = Tensor::empty(tape.context(), in.shape(), in.dtype());
  for (std::int64_t i = 0; i < in.numel(); ++i) y.data<double>()[i] = in.data<double>()[i] * in.data<double>()[i];
  return tape.record(kSquare, {x}, y, {in});
}

// Two outputs that are both the input: gives the same gradient tensor away twice, as a residual connection does.
inline void fork_backward(Tape& tape, Node& node) {
  for (std::size_t o = 0; o < 2; ++o)
    if (node.grad(o).defined()) tape.accumulate(node.inputs[0], node.grad(o));
}
inline constexpr Op kFork{"fork", fork_backward};

// y = a + b, handing its gradient itself to both.
inline void join_backward(Tape& tape, Node& node) {
  tape.accumulate(node.inputs[0], node.grad());
  tape.accumulate(node.inputs[1], node.grad());
}
inline constexpr Op kJoin{"join", join_backward};

inline Var join(Tape& tape, const Var& a, const Var& b) {
  const Tensor y = Tensor::empty(tape.context(), a.shape(), a.dtype());
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = a.value().data<double>()[i] + b.value().data<double>()[i];
  return tape.record(kJoin, {a, b}, y, {});
}

}  // namespace fovea::testing

#include "mechanisms/quotient.h"

#include "core/parallel.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

constexpr std::int64_t kGrain = 256;  // rows per task

template <class T>
void divide_rows(const Context& context, const Tensor& x, const Tensor& y, double add) {
  using R = Wide<T>;
  const std::int64_t d = y.dim(-1);
  parallel_ranges(context, x.numel() / (d + 1), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* from = x.data<T>() + r * (d + 1);
      T* to = y.data<T>() + r * d;
      const R sum = static_cast<R>(from[d]) + static_cast<R>(add);
      for (std::int64_t c = 0; c < d; ++c) to[c] = static_cast<T>(sum == 0 ? R(0) : static_cast<R>(from[c]) / sum);
    }
  });
}

// dx[:d] = g / D, dx[d] = -(g . y) / D.
template <class T>
void pull_rows(const Context& context, const Tensor& x, const Tensor& g, const Tensor& dx, double add) {
  using R = Wide<T>;
  const std::int64_t d = g.dim(-1);
  parallel_ranges(context, x.numel() / (d + 1), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *in = x.data<T>() + r * (d + 1), *pulled = g.data<T>() + r * d;
      T* out = dx.data<T>() + r * (d + 1);
      const R sum = static_cast<R>(in[d]) + static_cast<R>(add), inverse = sum == 0 ? R(0) : 1 / sum;
      R dot = 0;
      for (std::int64_t c = 0; c < d; ++c) {
        dot += static_cast<R>(pulled[c]) * static_cast<R>(in[c]);
        out[c] = static_cast<T>(static_cast<R>(pulled[c]) * inverse);
      }
      out[d] = static_cast<T>(-dot * inverse * inverse);
    }
  });
}

void divide_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const Tensor& x = node.saved[0];
  const Tensor g = node.grad().contiguous(context), dx = Tensor::empty(context, x.shape(), x.dtype());
  visit_float(x.dtype(), [&]<class T>() { pull_rows<T>(context, x, g, dx, std::any_cast<double>(node.attributes)); });
  tape.accumulate(node.inputs[0], dx);
}

constexpr Op kDivide{"divide_by_last", divide_backward};

}  // namespace

Var with_ones(Tape& tape, const Var& x) {
  const Tensor ones = Tensor::empty(tape.context(), x.shape().with(-1, 1), x.dtype());
  ones.fill(1.0);
  const Var parts[] = {x, Var(ones)};
  return concat(tape, parts, -1);
}

Var divide_by_last(Tape& tape, const Var& x, double add) {
  const Context& context = tape.context();
  const Tensor in = x.value().contiguous(context);
  const Tensor y = Tensor::empty(context, in.shape().with(-1, in.dim(-1) - 1), in.dtype());
  visit_float(in.dtype(), [&]<class T>() { divide_rows<T>(context, in, y, add); });
  return tape.record(kDivide, {x}, y, {in}, add);
}

}  // namespace fovea

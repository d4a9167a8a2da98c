#include "mechanisms/gated.h"

#include <algorithm>

#include "core/parallel.h"

namespace fovea {
namespace {

// Rows [begin, end) whose key at distance `away` exists, for n_q queries that are the last of n_k positions.
Pattern::Range rows_at(const Distances& sizes, std::int64_t away) {
  const std::int64_t shift = sizes.n_k - sizes.n_q + away;  // key of row i: i + shift
  return {std::max<std::int64_t>(0, -shift), std::min(sizes.n_q, sizes.n_k - shift)};
}

void toeplitz_backward(Tape& tape, Node& node) {
  const Context& context = tape.context();
  const auto& sizes = std::any_cast<const Distances&>(node.attributes);
  const Tensor g = node.grad().contiguous(context);
  const Tensor d = Tensor::empty(context, node.inputs[0]->shape, node.inputs[0]->dtype);
  const std::int64_t reach = (d.numel() + 1) / 2;
  visit_float(g.dtype(), [&]<class T>() {
    parallel_for(context, d.numel(), [&](std::int64_t entry) {
      const std::int64_t away = entry - reach + 1, shift = sizes.n_k - sizes.n_q + away;
      const auto [begin, end] = rows_at(sizes, away);
      Wide<T> sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += static_cast<Wide<T>>(g.data<T>()[i * sizes.n_k + i + shift]);
      d.data<T>()[entry] = static_cast<T>(sum);
    });
  });
  tape.accumulate(node.inputs[0], d);
}

constexpr Op kToeplitz{"toeplitz", toeplitz_backward};

}  // namespace

std::vector<WeightSpec> copy_weights(std::int64_t pairs, std::int64_t d) {
  return {{.name = "gain", .shape = {pairs, d}, .init = Init::normal(0.02)},
          {.name = "shift", .shape = {pairs, d}, .init = Init::zeros()}};
}

Var scaled_copy(const Call& call, const Var& z, std::int64_t pair) {
  Tape& tape = call.tape;
  const auto row = [&](const Var& w) { return reshape(tape, slice(tape, w, 0, pair, pair + 1), {w.dim(1)}); };
  return add(tape, mul(tape, z, row(call.options.weights[0])), row(call.options.weights[1]));
}

Var toeplitz(Tape& tape, const Var& table, const Distances& sizes) {
  const Tensor w = table.value().contiguous(tape.context());
  const Tensor out = Tensor::zeros(tape.context(), {1, 1, sizes.n_q, sizes.n_k}, w.dtype());
  const std::int64_t reach = (w.numel() + 1) / 2;
  visit_float(w.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < sizes.n_q; ++i) {
      const std::int64_t position = i + sizes.n_k - sizes.n_q;
      const std::int64_t begin = std::max<std::int64_t>(0, position - reach + 1);
      const std::int64_t end = std::min(sizes.n_k, position + reach);
      for (std::int64_t j = begin; j < end; ++j)
        out.data<T>()[i * sizes.n_k + j] = w.data<T>()[j - position + reach - 1];
    }
  });
  return tape.record(kToeplitz, {table}, out, {}, sizes);
}

}  // namespace fovea

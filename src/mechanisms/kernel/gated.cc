#include "mechanisms/kernel/gated.h"

namespace fovea {

std::vector<WeightSpec> copy_weights(std::int64_t pairs, std::int64_t d) {
  const bool both = pairs == 4;  // with the linear half
  return {
      {.name = "gain",
       .shape = {pairs, d},
       .init = Init::normal(0.02),
       .axes = both ? "4, d_k" : "2, d_k",
       .meaning =
           both ? "factors of the channels, for all heads: of q and of k inside a chunk, of q and of k across chunks"
                : "factors of the channels, for all heads: of q, then of k"},
      {.name = "shift",
       .shape = {pairs, d},
       .init = Init::zeros(),
       .axes = both ? "4, d_k" : "2, d_k",
       .meaning = "added after the factors, in the same order"}};
}

WeightSpec distance_weight(std::int64_t reach, std::string_view axes) {
  return {.name = "bias",
          .shape = {2 * reach - 1},
          .init = Init::normal(0.02),
          .axes = axes,
          .meaning = "added to a score, for all heads: element key - query + (size - 1) / 2; keys further away get 0"};
}

Var scaled_copy(const Call& call, const Var& z, std::int64_t pair) {
  Tape& tape = call.tape;
  const auto row = [&](const Var& w) { return reshape(tape, slice(tape, w, 0, pair, pair + 1), {w.dim(1)}); };
  return add(tape, mul(tape, z, row(call.options.weights[0])), row(call.options.weights[1]));
}

Var by_distance(Tape& tape, const Var& table, std::int64_t length) {
  const std::int64_t reach = (table.dim(0) + 1) / 2, beyond = length - reach;
  if (beyond <= 0) return reshape(tape, slice(tape, table, 0, -beyond, table.dim(0) + beyond), {1, 1, 2 * length - 1});
  const Var zeros = Tensor::zeros(tape.context(), {beyond}, table.dtype());
  return reshape(tape, concat(tape, std::vector<Var>{zeros, table, zeros}, 0), {1, 1, 2 * length - 1});
}

}  // namespace fovea

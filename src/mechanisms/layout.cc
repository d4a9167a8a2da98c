#include "mechanisms/layout.h"

#include <numeric>

namespace fovea {
namespace {

// Positions i32 (b, n): counted from `first[s]` within sequence s; 0 on padding.
Tensor positions_of(const Context& context, const Var& x, const std::vector<Sequences::Rows>& rows,
                    const std::vector<std::int64_t>& first) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(x.dim(0) * x.dim(1)), 0);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto begin = positions.begin() + rows[s].batch * x.dim(1) + rows[s].begin;
    std::iota(begin, begin + rows[s].count, static_cast<std::int32_t>(first[s]));
  }
  return Tensor::from<std::int32_t>(context, {x.dim(0), x.dim(1)}, positions);
}

}  // namespace

Tensor output_like(const Context& context, const Shape& shape, DType dtype, const std::vector<Sequences::Rows>& rows) {
  return covers(rows, shape) ? Tensor::empty(context, shape, dtype) : Tensor::zeros(context, shape, dtype);
}

Tensor gradient_like(const Tape& tape, const std::shared_ptr<Slot>& slot, const Tensor& input,
                     const std::vector<Sequences::Rows>& rows) {
  const Tensor gradient = tape.room(slot, input.shape(), input.dtype());
  if (!covers(rows, input.shape())) gradient.fill(0.0);
  return gradient;
}

Tensor query_positions(const Call& call) {
  std::vector<std::int64_t> first;
  for (std::size_t s = 0; s < call.queries.size(); ++s) first.push_back(call.keys[s].count - call.queries[s].count);
  return positions_of(call.tape.context(), call.q, call.queries, first);
}

Tensor key_positions(const Call& call) {
  return positions_of(call.tape.context(), call.k, call.keys, std::vector<std::int64_t>(call.keys.size(), 0));
}

std::pair<Var, Var> rotated(const Call& call, const Var& q, const Var& k) {
  if (!call.options.rotary) return {q, k};
  if (call.options.positions.defined()) {
    if (q.dim(1) != k.dim(1))
      fail(ErrorCode::usage, "explicit positions need queries and keys of one length", "positions");
    return {rotate(call.tape, q, call.options.positions, *call.options.rotary),
            rotate(call.tape, k, call.options.positions, *call.options.rotary)};
  }
  return {rotate(call.tape, q, query_positions(call), *call.options.rotary),
          rotate(call.tape, k, key_positions(call), *call.options.rotary)};
}

Var normalize_heads(Tape& tape, const Var& x, NormKind kind, double eps) {
  const Var flat = reshape(tape, x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)});
  const Var normed = normalize(tape, flat, {.kind = kind, .eps = eps});
  return reshape(tape, normed, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
}

}  // namespace fovea

#include "mechanisms/positions.h"

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

}  // namespace fovea

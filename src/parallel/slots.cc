#include "parallel/slots.h"

#include "core/wide.h"
#include "parallel/rows.h"

namespace fovea::divided {
namespace {

// This rank's rows of a sequence, x (1, rows, heads, d), by their columns of w, (slots, most) for all heads or (heads,
// slots, most): (1, slots, heads, d).
Var compressed(Tape& tape, const Var& x, const Var& w, std::int64_t begin) {
  const std::int64_t n = x.dim(1), heads = x.dim(2), d = x.dim(3), slots = w.dim(-2);
  const Var columns = slice(tape, w, -1, begin, begin + n);
  if (w.value().rank() == 2)
    return reshape(tape, matmul(tape, columns, reshape(tape, x, {n, heads * d})), {1, slots, heads, d});
  const Var by_head = matmul(tape, columns, transpose(tape, reshape(tape, x, {n, heads, d}), 0, 1));
  return reshape(tape, transpose(tape, by_head, 0, 1), {1, slots, heads, d});
}

// The slots of all sequences one after another, the same on every rank.
Var slots_of(const Call& call, const Var& x, const Var& w, const Division& division) {
  Tape& tape = call.tape;
  const int rank = division.ranks().rank();
  std::vector<Var> parts;
  for (std::size_t s = 0; s < division.size(); ++s) {
    if (division.length(s) > w.dim(-1))
      fail(ErrorCode::bad_input,
           "a sequence of " + std::to_string(division.length(s)) + " tokens, linformer was made for " +
               std::to_string(w.dim(-1)),
           "k", "a larger max_length");
    const std::int64_t at = division.row(s), n = division.count(s, rank);
    if (n > 0)
      parts.push_back(compressed(tape, slice(tape, x, 1, at, at + n), w, division.begin(s, rank)));
    else
      parts.emplace_back(Tensor::zeros(tape.context(), {1, w.dim(-2), x.dim(2), x.dim(3)}, x.dtype()));
  }
  return sum(tape, concat(tape, parts, 1), division.ranks());
}

Sequences slots_of_each(std::size_t sequences, std::int64_t slots) {
  Sequences rows;
  for (std::size_t s = 0; s <= sequences; ++s)
    rows.cu_seqlens.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(s) * slots));
  return rows;
}

}  // namespace

AttentionResult slot_attention(const Call& call, const Division& division) {
  Tape& tape = call.tape;
  const DType dtype = call.q.dtype();
  const auto wide = [&](const Var& x) { return cast(tape, x, wide_type(dtype)); };
  const std::vector<Var>& w = call.options.weights;
  const Var keys = slots_of(call, wide(call.k), w.front(), division),
            values = slots_of(call, wide(call.v), w.back(), division);
  AttentionOptions options;
  options.scale = call.options.scale;
  options.queries = call.options.queries;
  options.keys = slots_of_each(division.size(), w.front().dim(-2));
  const Var y = fovea::attention(tape, wide(call.q), keys, values, Mechanism("softmax"), options).output;
  return {cast(tape, y, dtype), {}, {}};
}

}  // namespace fovea::divided

#include "mechanisms/kernel/chunks.h"

#include "ops/sequence.h"

namespace fovea {
namespace {

// Rows [begin, begin + count chunk) of x (b, n, heads, d) as (b, count, heads, chunk, d).
struct ChunkRun {
  std::int64_t begin, count, chunk;
};
Var chunked(Tape& tape, const Var& x, const ChunkRun& part) {
  const Var rows = slice(tape, x, 1, part.begin, part.begin + part.count * part.chunk);
  return transpose(tape, reshape(tape, rows, {x.dim(0), part.count, part.chunk, x.dim(2), x.dim(3)}), 2, 3);
}

// (b, count, heads, chunk, e) back to rows.
Var unchunked(Tape& tape, const Var& x) {
  return reshape(tape, transpose(tape, x, 2, 3), {x.dim(0), x.dim(1) * x.dim(3), x.dim(2), x.dim(4)});
}

}  // namespace

Var read_earlier_chunks(Tape& tape, const Triple& x, std::int64_t chunk) {
  const std::int64_t b = x.q.dim(0), n = x.q.dim(1), heads = x.q.dim(2), d = x.q.dim(3), e = x.v.dim(3);
  const std::int64_t earlier = n == 0 ? 0 : (n - 1) / chunk;  // chunks that have rows behind them
  const Var nothing = Tensor::zeros(tape.context(), {b, std::min(n, chunk), heads, e}, x.q.dtype());
  if (earlier == 0) return nothing;
  const ChunkRun all{0, earlier, chunk};
  const Var sums = matmul(tape, transpose(tape, chunked(tape, x.k, all), 3, 4), chunked(tape, x.v, all));
  const Var states = reshape(tape, cumsum(tape, reshape(tape, sums, {b, earlier, heads * d * e})),
                             {b, earlier, heads, d, e});  // state g: all chunks up to g
  std::vector<Var> parts{nothing};
  const std::int64_t full = n / chunk - 1;  // whole chunks after the first
  if (full > 0)
    parts.push_back(
        unchunked(tape, matmul(tape, chunked(tape, x.q, {chunk, full, chunk}), slice(tape, states, 1, 0, full))));
  if (const std::int64_t rest = n % chunk; rest > 0)
    parts.push_back(unchunked(
        tape, matmul(tape, chunked(tape, x.q, {n - rest, 1, rest}), slice(tape, states, 1, earlier - 1, earlier))));
  return concat(tape, parts, 1);
}

}  // namespace fovea

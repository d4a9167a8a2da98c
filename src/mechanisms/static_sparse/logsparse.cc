#include <algorithm>

#include "mechanisms/positions.h"
#include "mechanisms/static_sparse/set_kind.h"
#include "ops/sequence.h"
#include "reference/sparse.h"

namespace fovea {
namespace {

constexpr std::size_t kMostDiagonals = 128;  // beyond, tiles are dense enough to win

// Distances below n that are read: 0 and powers of two, or those of every sub-sequence.
std::vector<std::int64_t> distances(std::int64_t restart, std::int64_t n) {
  std::vector<std::int64_t> all{0};
  std::int64_t cells = 0;
  while (restart > 0 && (std::int64_t{1} << cells) < restart) ++cells;
  if (restart == 0)
    for (std::int64_t power = 1; power < n; power *= 2) all.push_back(power);
  for (std::int64_t base = 0; restart > 0 && base < n; base += restart) {
    for (std::int64_t near = 0; near < cells; ++near) all.push_back(base + near);
    for (std::int64_t k = 0; k < cells; ++k) {
      const std::int64_t far = cells - 1 + (std::int64_t{1} << k);
      if (far <= restart) all.push_back(base + far);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  while (all.back() >= n && all.size() > 1) all.pop_back();
  return all;
}

// The same on both sides unless the call is causal.
std::vector<std::int64_t> offsets(const Mechanism& mechanism, std::int64_t n, bool causal) {
  std::vector<std::int64_t> all = distances(mechanism.integer("restart"), n);
  const std::size_t past = all.size();
  for (std::size_t i = 1; i < past && !causal; ++i) all.push_back(-all[i]);
  return all;
}

std::vector<Part> parts(const Mechanism& mechanism, const PartSizes& sizes) {
  return {{Pattern::distances(offsets(mechanism, std::max(sizes.n_q, sizes.n_k), sizes.causal))}};
}

// Tiles would be nearly empty: where nothing asks for them, rows are gathered instead.
bool gathers(const Call& call, std::size_t diagonals) {
  const AttentionOptions& o = call.options;
  bool same = call.q.dim(1) == call.k.dim(1) && diagonals <= kMostDiagonals;
  for (std::size_t s = 0; s < call.queries.size(); ++s)
    same = same && call.queries[s].begin == call.keys[s].begin && call.queries[s].count == call.keys[s].count;
  const bool drops = o.dropout_p > 0.0 && call.tape.training();
  return same && !o.window && !o.pattern && !o.alibi && !o.return_lse && !o.bias.defined() &&
         !o.diagonal_bias.defined() && !o.mask.defined() && !drops;
}

Var gather_rows(const Call& call, std::vector<std::int64_t> distances) {
  Tape& tape = call.tape;
  for (std::int64_t& x : distances) x = -x;
  const Diagonals along{.offsets = std::move(distances), .rows = call.options.queries};
  const auto [q, k] = rotated(call, call.q, call.k);
  const DType wide = wide_type(q.dtype());
  const double scale = scale_of(call);
  const Var scores = diagonal_scores(tape, cast(tape, q, wide), cast(tape, k, wide), along, {.scale = scale});
  return cast(tape, mix_diagonals(tape, softmax(tape, scores), cast(tape, call.v, wide), along), q.dtype());
}

AttentionResult run(const Call& call) {
  const std::int64_t n = std::max(call.q.dim(1), call.k.dim(1));
  std::vector<std::int64_t> all = offsets(call.mechanism, n, call.options.causal);
  if (gathers(call, all.size())) return {gather_rows(call, std::move(all)), {}, {}};
  return run_parts(call, parts);
}

reference::Result define(const reference::Problem& problem, const Mechanism& mechanism) {
  return reference::sparse(problem, [&](std::int64_t, std::int64_t query, std::int64_t key) {
    return reference::reads_log(query, key, mechanism.integer("restart"));
  });
}

}  // namespace

const MechanismKind& logsparse_kind() {
  static const MechanismKind kind = set_kind<parts>({
      .name = "logsparse",
      .summary = "the query's own key and those a power of two away",
      .paper =
          "Li et al. 2019, Enhancing the Locality and Breaking the Memory Bottleneck of Transformer on Time Series",
      .parameters = {{"restart",
                      std::int64_t{0},
                      0,
                      1 << 30,
                      {},
                      "length of sub-sequences that each have the pattern and a few near keys; 0: none"}},
      .run = run,
      .reference = define,
      .log_factor = true,
      .picture = "logsparse",
  });
  return kind;
}

}  // namespace fovea

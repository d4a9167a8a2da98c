#pragma once

#include "reference/attention.h"

// Definitions of the static sparse mechanisms: which pairs they keep, pair by pair. Positions are absolute.
namespace fovea::reference {

// Softmax over the pairs a predicate keeps, besides what the problem itself keeps.
using Reads = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;
Result sparse(const Problem& given, const Reads& reads);

// `left` steps before and `right` after the query, each of `dilation` tokens.
struct Steps {
  std::int64_t left, right, dilation;
};
bool reads_steps(std::int64_t query, std::int64_t key, const Steps& steps);
// Sparse Transformer: `local` keys before and at the query, and all a multiple of `stride` away.
bool reads_strided(std::int64_t query, std::int64_t key, std::int64_t stride, std::int64_t local);
// Sparse Transformer: the query's own block, and the last `summary` columns of every block.
bool reads_fixed(std::int64_t query, std::int64_t key, std::int64_t block, std::int64_t summary);
// LogSparse: itself and powers of two away; `restart` > 0: in every sub-sequence of that length, with local cells.
bool reads_log(std::int64_t query, std::int64_t key, std::int64_t restart);

// Star: token 0 is the relay, the others stand on a ring.
enum class Ring : std::uint8_t { open, closed, zero };
Result star(const Problem& problem, Ring ring);

// Longformer. Weights: the projections of the global tokens' q, k and v, or none.
struct Longformer {
  std::int64_t window, dilation, globals;
  bool own_projections;
};
Result longformer(const Problem& problem, const Longformer& settings);

// BigBird. Every block of queries reads `random` more blocks, drawn for its head and layer without putting back from
// those it does not read anyway; causal: from earlier ones. Extended: learned keys and values instead of global blocks,
// weights 0 and 1.
struct BigBird {
  std::int64_t block, random;
  bool extended;
  std::uint64_t seed;
};
Result bigbird(const Problem& problem, const BigBird& settings);

// Fixed patterns of an encoder: the first heads have given weights, `most` at the most and never all, the others learn
// them. Of the seven patterns a causal call has the three that do not look ahead.
enum class Edge : std::uint8_t { self, zero, first };
Result fixed_encoder(const Problem& problem, std::int64_t most, Edge edge);

}  // namespace fovea::reference

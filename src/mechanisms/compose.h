#pragma once

#include <functional>

#include "mechanisms/kind.h"
#include "mechanisms/tiled.h"

// What mechanisms that are made of several operations share.
namespace fovea {

// Runs body on whole sequences: once for all when every row of the batch is real, else on those of one length after
// those of another, without their padding. Body gets a call whose q (b, n_q, heads, d_k), k, v and input hold nothing
// but real rows and whose options have no lengths; it gives (b, n_q, heads, d_v). Sequences without queries or keys
// give zero rows.
Var each_sequence(const Call& call, const std::function<Var(const Call&)>& body);

// Runs body on all sequences of a kind at once: they are the items of its batch where they have one length, else packed
// in one item, and the options' queries and keys say how. Without `kind` all are of one. Body gets nothing but real
// rows, no sequence without queries or keys, and gives (b, n_q, heads, d_v).
using SequenceKind = std::function<std::int64_t(std::int64_t n_q, std::int64_t n_k)>;
Var all_sequences(const Call& call, const std::function<Var(const Call&)>& body, const SequenceKind& kind = {});

// x (sequences, m, heads, d) as queries or keys besides those of a call of all_sequences: (b, sequences m / b, heads,
// d), and where each sequence has its m rows there.
Var beside(const Call& call, const Var& x);
std::vector<Sequences::Rows> rows_beside(const Call& call, std::int64_t m);

// Runs body with q, k, v and input in f32 (f64 for f64), for mechanisms whose parts must be more precise than their
// output; the result is in the dtype of the call.
Var in_wide_type(const Call& call, const std::function<Var(const Call&)>& body);
// each_sequence so.
Var each_sequence_wide(const Call& call, const std::function<Var(const Call&)>& body);

// Whole sequences on the tiled engine with other q, k and v, and no option of the call but those given.
struct Triple {
  Var q, k, v;
};
AttentionResult run_tiled_on(const Call& call, const Triple& x, const AttentionOptions& options, const Tiled& tiled);

// A softmax over `kept`, which has its log-sum-exp, and over keys of zero score and zero value besides: `lse` (b, n_q,
// heads) is the logarithm of how many.
AttentionResult with_zero_keys(const Call& call, const AttentionResult& kept, const Tensor& lse);

// x (b, n, heads, d) as matrices of one head, (b, heads, n, d), and back. Views.
Var by_head(Tape& tape, const Var& x);
Var by_token(Tape& tape, const Var& x);

// Every head by a matrix of its own: x (b, n, heads, d), w (heads, d, e) -> (b, n, heads, e).
Var multiply_heads(Tape& tape, const Var& x, const Var& w);

// Normalises (b, n, heads, d) over heads and d together.
Var normalize_heads(Tape& tape, const Var& x, NormKind kind, double eps);

// k or v (b, n, kv_heads, d) with every head repeated for the query heads that share it: (b, n, heads, d).
Var repeat_heads(Tape& tape, const Var& x, std::int64_t heads);
// The call with k and v repeated so.
Call with_repeated_heads(const Call& call);

// How the rows of k, v and the layer's input divide into sequences.
const Sequences& key_sequences(const Call& call);

// Do iterations for the inverses of all landmarks start alike?
ParameterSpec batch_start();

}  // namespace fovea

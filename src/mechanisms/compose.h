#pragma once

#include <functional>

#include "mechanisms/kind.h"

// What mechanisms that are made of several operations share.
namespace fovea {

// Runs body on whole sequences: once for all when every row of the batch is real, else on one sequence after the other
// without its padding. Body gets a call whose q (b, n_q, heads, d_k), k, v and input hold nothing but real rows and
// whose options have no lengths; it gives (b, n_q, heads, d_v). Sequences without queries or keys give zero rows.
Var each_sequence(const Call& call, const std::function<Var(const Call&)>& body);

// x (b, n, heads, d) as matrices of one head, (b, heads, n, d), and back. Views.
Var by_head(Tape& tape, const Var& x);
Var by_token(Tape& tape, const Var& x);

// Every head by a matrix of its own: x (b, n, heads, d), w (heads, d, e) -> (b, n, heads, e).
Var multiply_heads(Tape& tape, const Var& x, const Var& w);

// k or v (b, n, kv_heads, d) with every head repeated for the query heads that share it: (b, n, heads, d).
Var repeat_heads(Tape& tape, const Var& x, std::int64_t heads);

}  // namespace fovea

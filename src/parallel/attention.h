#pragma once

#include <span>
#include <string_view>

#include "fovea/attention.h"
#include "parallel/division.h"

namespace fovea::divided {

// What ranks that divide a sequence tell each other in a layer of a mechanism.
enum class Travels : std::uint8_t {
  keys,   // the keys and values that the pattern names, round by round
  state,  // a state of each head, and what it fades by
  slots,  // sums of what keys and values are compressed to
  rows,   // all rows of q, k, v and of the input, where it is read: every rank then does the work of all
};
// Every mechanism has a form: the last one where none is better, for it or for these options.
Travels travels(const Mechanism& mechanism, const AttentionOptions& options);
// Of one whose keys travel: the pairs of positions that it keeps.
Pattern keys_pattern(const Mechanism& mechanism, const AttentionOptions& options);

// attention() of sequences whose rows are divided among ranks: q, k and v (1, rows, heads, d), options.input and the
// output are this rank's rows. All ranks make the same calls; the results and gradients are those of one rank, up to
// the order of f32 sums. The division takes the place of options.queries, keys and positions; what goes by pairs (bias,
// mask) and states of the caller have no place here.
AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                          const AttentionOptions& options, const Division& division);

}  // namespace fovea::divided

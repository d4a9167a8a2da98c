#pragma once

#include <span>
#include <string_view>

#include "fovea/attention.h"
#include "parallel/division.h"

namespace fovea::parallel {

// What ranks that divide a sequence tell each other in a layer of a mechanism.
enum class Travels : std::uint8_t {
  keys,   // the keys and values that the pattern names, round by round
  state,  // a state of each head, and what it fades by
};
struct Form {
  std::string_view mechanism;
  Travels travels;
};
// The mechanisms that have one; of all others it is a named error.
std::span<const Form> forms();

// attention() of sequences whose rows are divided among ranks: q, k and v (1, rows, heads, d), options.input and the
// output are this rank's rows. All ranks make the same calls; the results and gradients are those of one rank, up to
// the order of f32 sums. The division takes the place of options.queries, keys and positions; what goes by pairs (bias,
// mask) and states of the caller have no place here.
AttentionResult attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Mechanism& mechanism,
                          const AttentionOptions& options, const Division& division);

}  // namespace fovea::parallel

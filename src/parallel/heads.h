#pragma once

#include <functional>

#include "dist/group.h"
#include "fovea/attention.h"

// Attention whose heads ranks divide: rank r has heads [r heads / ranks, ...) of q, of k and of v, whole rows of each.
namespace fovea::divided {

// Do heads of the mechanism know nothing of each other, but for a norm over all of them? Where they do not, every rank
// has all heads and does the work of all.
bool divides_heads(const Mechanism& mechanism);

struct Heads {
  Var q, k, v;        // this rank's: (b, n, heads, d)
  dist::Group ranks;  // who has the others; one: nobody
};
using AttendHeads = std::function<Var(const Heads& heads, const Mechanism& mechanism, const AttentionOptions& options)>;

// What `attend` makes of these heads, with numbers that go by the heads of all: decays, slopes and dropout are those of
// their heads, and of a norm over all heads the mean square of every row is added up over the ranks.
Var attention_of_heads(Tape& tape, const Heads& heads, const Mechanism& mechanism, AttentionOptions options,
                       const AttendHeads& attend);

}  // namespace fovea::divided

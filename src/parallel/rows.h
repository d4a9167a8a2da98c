#pragma once

#include "fovea/ops.h"
#include "parallel/division.h"

// What happens to rows that ranks divide, as operations with gradients.
//
// One rule makes all of them right: what is minimised is the sum of what the ranks' tapes are given, each a function of
// the values of all ranks. So a gradient that comes from other ranks is added up, whoever has the same value holds a
// part of its gradient, and the gradients of a parameter on all ranks add up to that of one rank.
namespace fovea::divided {

// (1, rows, ...) -> (batch, n, ...), on every rank. Rows of all others travel; back the sums of their gradients, in f32
// (f64 for f64).
Var join(Tape& tape, const Var& part, const Division& division);
// This rank's rows of what every rank has.
Var cut(Tape& tape, const Var& whole, const Division& division);
// The sum over ranks, on every rank: a wide type.
Var sum(Tape& tape, const Var& x, const dist::Group& ranks);

// Where ranks meet in one number: each has the loss of its rows, a mean over those that count; every one gets that of
// all. The tape of each is given the whole gradient of it.
ClassLoss mean_of_all(Tape& tape, const ClassLoss& own, const dist::Group& ranks);
// The same for a number that every rank has computed from the same values.
Var alike(Tape& tape, const Var& x, const dist::Group& ranks);

// dropout() of (1, rows, ...): of the rows of the whole.
Var dropout(Tape& tape, const Var& x, double p, const Division& division);
// mean_pool(), first_pool() and last_pool() of the whole sequences, on every rank: (1, rows, width) -> (sequences,
// width) in a wide type.
Var mean_pool(Tape& tape, const Var& x, const Division& division);
Var first_pool(Tape& tape, const Var& x, const Division& division);
Var last_pool(Tape& tape, const Var& x, const Division& division);

}  // namespace fovea::divided

#pragma once

#include "fovea/ops.h"
#include "ops/spans.h"

namespace fovea {

// What a table has for the places of rows in their sequences.
struct RowPlaces {
  Var table;     // (places, width), of the type of the tokens' table; undefined: there is none
  Index index;   // of the shape of the ids
  RowList runs;  // sequences whose rows have the places 0, 1, ... in order, all others no gradient; empty: not known
};

// tokens[ids] + places.table[places.index], added in the type of the tables and rounded once to `dtype`.
Var embedding_sum(Tape& tape, const Var& tokens, const Index& ids, const RowPlaces& places, DType dtype);

}  // namespace fovea

#pragma once

#include "fovea/attention.h"
#include "fovea/pattern.h"
#include "parallel/division.h"
#include "tile/contract.h"

namespace fovea::divided {

// What a ring asks of the tiled engine.
struct Ring {
  tile::Weight weight = tile::Weight::softmax;
  Pattern pattern = {};  // of positions in whole sequences
  double scale = 1.0;
  double offset = 0.0;  // numbers of the weight, see tile::Problem
  int degree = 2;
  bool alibi = false;
  double dropout_p = 0.0;
  HeadShare heads = {};
};

struct RingResult {
  Var output;  // (1, rows, heads, d_v), f32 (f64 for f64)
  Var lse;     // (1, rows, heads) of weights that have it
};

// Attention of divided sequences: q, k and v are this rank's rows, (1, rows, heads, d). In P - 1 rounds every rank gets
// from each other one the rows of k and v that its queries' pattern names there, and no others; partial outputs are
// joined in f32 by their log-sum-exp, or added where the weight has none. Backward goes the same way again, so that no
// rank ever holds the keys of all, and sends the gradients of k and v home.
RingResult ring_attention(Tape& tape, const Var& q, const Var& k, const Var& v, const Ring& ring,
                          const Division& division);

// Rows of k and v that this rank gets from others in one pass.
std::int64_t ring_rows(const Ring& ring, const Division& division);

}  // namespace fovea::divided

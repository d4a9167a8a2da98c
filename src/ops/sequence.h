#pragma once

#include <limits>
#include <vector>

#include "fovea/ops.h"

// Operations along the positions of (b, n, heads, d), of which mechanisms are composed. They obey what ops.h says of
// its own. None crosses the ends of a sequence (`rows`), reads padding, or writes anything but 0 there unless it says
// so.
namespace fovea {

// Row i meets the rows i + offset of its sequence, one for each offset.
struct Diagonals {
  std::vector<std::int64_t> offsets;
  Sequences rows = {};
  bool ring = false;  // the ends of a sequence are joined: i + offset is counted modulo its length
};

struct DiagonalScores {
  double scale = 1.0;
  double outside = -std::numeric_limits<double>::infinity();  // where i + offset is not in the sequence; all of padding
};
// scale q_i . k_(i + offset): q (b, n, h, d), k (b, n, kv_h, d) -> (b, n, h, offsets). Query heads share key heads in
// groups of h / kv_h.
Var diagonals(Tape& tape, const Var& q, const Var& k, const Diagonals& along, const DiagonalScores& scores = {});
// sum over c of weights_ic v_(i + offset_c): weights (b, n, h, offsets), v (b, n, kv_h, d) -> (b, n, h, d). Weights of
// rows outside the sequence are not read.
Var mix_diagonals(Tape& tape, const Var& weights, const Var& v, const Diagonals& along);

}  // namespace fovea

#pragma once

#include <cstdint>

#include "tile/contract.h"

// The pairwise engine where a weight needs its whole row first: o_i = sum_j w_ij v_j, w_i = rule(s_i).
//
// A query block's scores stand in a thread's scratch, n_k x tile_q of them (two such tiles in backward); never n x n.
// `problem.weight` is not read. Products are of f32 (f64 for f64 problems): half types are converted.
namespace fovea::tile {

enum class RowRuleKind : std::uint8_t {
  top_k,                   // softmax over the k largest scores; of equal ones the first keys win
  sparsemax,               // the nearest point of the simplex: max(s - tau, 0)
  entmax15,                // max(s / 2 - tau, 0)^2
  margin,                  // softmax after one target has paid a margin
  self_adjust_normalized,  // (s - lo) / (hi - lo) softmax(s), lo = min(s, 0), hi = max(s, 0) of the row
};

// Who pays the margin of a row: its largest score (of equal ones the first), or the key at the query's own position.
enum class MarginTarget : std::uint8_t { largest, diagonal };

struct RowRule {
  RowRuleKind kind = RowRuleKind::sparsemax;
  std::int64_t k = 1;   // top_k: as many as there are keys, or more, is softmax
  double margin = 0.0;  // margin: at least 0
  MarginTarget target = MarginTarget::largest;
  bool training = false;  // margin: without it nobody pays
  bool detach = false;    // self_adjust_normalized: lo and hi are constants in backward
};

// A row without keys gives zeros and takes no gradient. What a zero weight hides does not matter, NaN included.
// Forward: lse must be null.
template <Device>
void rule_forward(const Context& context, const Problem& problem, const RowRule& rule, const Forward& io);
// Rebuilds the weights: o, lse and d_lse are not read. Which keys are chosen, who is the largest and who pays are
// constants of the derivative.
template <Device>
void rule_backward(const Context& context, const Problem& problem, const RowRule& rule, const Backward& io);

}  // namespace fovea::tile

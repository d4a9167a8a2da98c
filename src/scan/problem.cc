#include <algorithm>

#include "scan/contract.h"

namespace fovea::scan {

std::int64_t state_width(const Problem& problem) {
  return problem.d_v + (problem.denominator == Denominator::none ? 0 : 1);
}

std::int64_t statistic_columns(const Problem& problem) {
  if (problem.rms_norm) return 1;
  return problem.denominator == Denominator::none ? 0 : problem.heads;
}

std::int64_t decay_columns(const Problem& problem) {
  if (problem.decay == Decay::channel) return problem.d_k;
  return problem.decay == Decay::step ? 1 : 0;
}

bool is_step(const Problem& problem) {
  return !problem.pieces.empty() && std::all_of(problem.pieces.begin(), problem.pieces.end(),
                                                [](const Piece& piece) { return piece.nq == 1 && piece.nk == 1; });
}

}  // namespace fovea::scan

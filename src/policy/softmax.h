#pragma once

#include <limits>

#include "policy/math.h"

namespace fovea {

// Softmax weights with a running maximum (going forward) or from the saved log-sum-exp (going back). Scores arrive in
// units of 1 / kUnit, so that the exponential is a plain power of two. A masked score is -infinity. A pair's share is
// what is summed and normalised; for softmax it is the weight.
struct Softmax {
  static constexpr bool kHasTop = true;  // a running maximum, a sum and a saved statistic
  template <class R>
  static constexpr R kUnit = math::kLog2e<R>;

  // Where the maximum starts: finite, so that a row masked so far subtracts it without making a NaN.
  template <class R>
  static constexpr R kFloor = std::numeric_limits<R>::lowest() / 4;

  // What sums collected under `before` are worth under the maximum `now`.
  template <class R>
  FOVEA_HD static R fold(R before, R now) {
    return math::exp2_low(before - now);
  }
  // The share, not normalised yet.
  template <class R>
  FOVEA_HD static R weigh(R score, R top) {
    return math::exp2_low(score - top);
  }
  // Factor of the output; an empty row stays zero.
  template <class R>
  FOVEA_HD static R close(R sum) {
    return sum == 0 ? R{0} : 1 / sum;
  }
  // The natural log-sum-exp: -infinity for an empty row.
  template <class R>
  FOVEA_HD static R statistic(R top, R sum) {
    return top * math::kLn2<R> + math::log(sum);
  }
  // The statistic as `again` wants it; rows that must contribute nothing give +infinity.
  template <class R>
  FOVEA_HD static R reopen(R statistic) {
    return statistic == -math::kInfinity<R> ? math::kInfinity<R> : statistic * math::kLog2e<R>;
  }
  // The share, rebuilt and normalised.
  template <class R>
  FOVEA_HD static R again(R score, R reopened) {
    return math::exp2_low(score - reopened);
  }
  template <class R>
  FOVEA_HD static R weight(R, R share) {
    return share;
  }
  // Gradient of the natural score from that of the weight; delta = sum_j weight_j grad_j - (gradient of the statistic).
  // A zero share gives zero whatever the gradient: masked pairs may hold NaN there.
  template <class R>
  FOVEA_HD static R vjp(R, R share, R grad, R delta) {
    return share == 0 ? R{0} : share * (grad - delta);
  }
};

// Self-adjusting softmax: weight = natural score times its share. The shares, their sum and the statistic are those of
// softmax.
struct SelfAdjust : Softmax {
  // Finite for a masked score. Asks about the score, not the share: two choices by the share become a branch, and the
  // loop is not vectorised.
  template <class R>
  FOVEA_HD static R natural(R score) {
    return score == -math::kInfinity<R> ? R{0} : score * math::kLn2<R>;
  }
  template <class R>
  FOVEA_HD static R weight(R score, R share) {
    return natural(score) * share;
  }
  template <class R>
  FOVEA_HD static R vjp(R score, R share, R grad, R delta) {
    const R factor = 1 + natural(score);
    return share == 0 ? R{0} : share * (grad * factor - delta);
  }
};

}  // namespace fovea

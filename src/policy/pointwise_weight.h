#pragma once

#include "policy/math.h"

// Weights that depend on their own score alone: no maximum, no normaliser, no statistic. Scores arrive in units of
// 1 / kUnit. A masked score is -infinity: it weighs exactly 0, and its `vjp`, the gradient of the natural score from
// that of the weight, is 0 whatever that gradient holds. A NaN score gives a NaN.
namespace fovea {

// Rectified linear attention: max(score, 0); the norm outside does the work of a normaliser.
struct Rela {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = R{1};

  template <class R>
  FOVEA_HD static R weigh(R score) {
    return score < 0 ? R{0} : score;
  }
  template <class R>
  FOVEA_HD static R vjp(R score, R, R grad) {
    return score > 0 ? grad : R{0};
  }
};

// max(score, 0)^2
struct Relu2 {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = R{1};

  template <class R>
  FOVEA_HD static R weigh(R score) {
    const R ramp = Rela::weigh(score);
    return ramp * ramp;
  }
  template <class R>
  FOVEA_HD static R vjp(R score, R, R grad) {
    return score <= 0 ? R{0} : 2 * score * grad;
  }
};

// 1 / (1 + exp(-(score + offset)))
struct SigmoidWeight {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = R{1};
  double offset = 0.0;

  template <class R>
  FOVEA_HD R weigh(R score) const {
    return math::sigmoid(score + static_cast<R>(offset));
  }
  // weight (1 - weight), whose difference from 1 would lose a saturated weight's digits.
  template <class R>
  FOVEA_HD R vjp(R score, R weight, R grad) const {
    const R e = math::exp(-math::absolute(score + static_cast<R>(offset))), y = 1 / (1 + e);
    return weight == 0 ? R{0} : e * y * y * grad;
  }
};

// exp(score), meant for exponents below 0. It ends at 2^100 (2^996), where it is flat: 2^27 such weights have a finite
// sum.
struct ExponentialWeight {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = math::kLog2e<R>;
  template <class R>
  static constexpr R kEnd = math::Real<R>::kBias - 27;

  template <class R>
  FOVEA_HD static R weigh(R score) {
    return math::exp2_low(score > kEnd<R> ? kEnd<R> : score);
  }
  template <class R>
  FOVEA_HD static R vjp(R score, R weight, R grad) {
    const R through = score > kEnd<R> ? R{0} : weight * grad;  // one condition with "or" is not vectorised
    return weight == 0 ? R{0} : through;
  }
};

// c0 + c1 score + ... + c4 score^4: even powers, and the exponential's Taylor polynomials, which are positive when they
// end with an even power.
struct PolynomialWeight {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = R{1};
  static constexpr int kMaxDegree = 4;
  double c0 = 0.0, c1 = 0.0, c2 = 0.0, c3 = 0.0, c4 = 0.0;

  // score^degree, degree 2 or 4
  static constexpr PolynomialWeight power(int degree) {
    return degree == 2 ? PolynomialWeight{.c2 = 1.0} : PolynomialWeight{.c4 = 1.0};
  }
  // sum over m <= degree of score^m / m!, degree 2 or 4
  static constexpr PolynomialWeight taylor(int degree) {
    return {1.0, 1.0, 1.0 / 2.0, degree == 2 ? 0.0 : 1.0 / 6.0, degree == 2 ? 0.0 : 1.0 / 24.0};
  }

  template <class R>
  FOVEA_HD R weigh(R score) const {
    const R value = math::horner(score, R(c0), R(c1), R(c2), R(c3), R(c4));
    return score == -math::kInfinity<R> ? R{0} : value;
  }
  template <class R>
  FOVEA_HD R vjp(R score, R, R grad) const {
    const R slope = math::horner(score, R(c1), R(2 * c2), R(3 * c3), R(4 * c4));
    return score == -math::kInfinity<R> ? R{0} : slope * grad;
  }
};

}  // namespace fovea

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "policy/math.h"

// One row of weights at a time: what the rules do to a score, and how their searches step. The loops over the keys
// belong to the engines. A masked score is -infinity and weighs exactly 0; a NaN stays one.
namespace fovea {

// The k-th largest score by bisection, on the integers that order floats as their values do.
template <class R>
struct TopKSearch {
  using Int = std::conditional_t<std::is_same_v<R, double>, std::int64_t, std::int32_t>;
  static constexpr Int kMagnitude =
      static_cast<Int>(~(static_cast<typename math::Real<R>::Bits>(1) << (8 * sizeof(Int) - 1)));

  FOVEA_HD static Int image(R x) {
    const Int bits = std::bit_cast<Int>(x);
    return bits < 0 ? bits ^ kMagnitude : bits;
  }
  FOVEA_HD static R value(Int image) { return std::bit_cast<R>(image < 0 ? image ^ kMagnitude : image); }

  // Between low and high, which are not neighbours. The mean of the values finds scores that lie close together in a
  // few steps; the mean of the images needs at most as many steps as there are bits. Taken in turns.
  FOVEA_HD static Int middle(Int low, Int high, bool of_images) {
    const Int half = (low & high) + ((low ^ high) >> 1);
    const Int mean = image(value(low) / 2 + value(high) / 2);
    const Int inside = mean <= low ? low + 1 : mean;
    return of_images ? half : (inside >= high ? high - 1 : inside);
  }
};

// p = max(x - tau, 0), sum p = 1; x = score - largest score, so -1 <= tau < 0.
struct Sparsemax {
  // Newton's step from below: the sum is convex in tau, so that a step never passes the root, and linear between the
  // scores, so that it arrives as soon as no score is passed. `sum` and `count` are those of the positive x - tau.
  template <class R>
  FOVEA_HD static R step(R sum, R count) {
    return count == 0 ? R{0} : (sum - 1) / count;
  }
  template <class R>
  FOVEA_HD static R weigh(R x, R tau) {
    return x < tau ? R{0} : x - tau;
  }
  // `mean` of the gradients over the support
  template <class R>
  FOVEA_HD static R vjp(R weight, R grad, R mean) {
    return weight == 0 ? R{0} : grad - mean;
  }
};

// p = max(x - tau, 0)^2, sum p = 1; x = (score - largest score) / 2, so -1 <= tau < 0.
struct Entmax15 {
  // Of the positive r = x - tau.
  template <class R>
  struct Sums {
    R count, first, second, least;  // how many, sum r, sum r^2, smallest r
  };
  template <class R>
  struct Step {
    R length;
    bool last;
  };
  // From below. With the support as it is, sum (r - h)^2 = 1 is a quadratic equation; when its root h loses nobody
  // (h < least) it is the answer. Else Newton's step on the convex sqrt(sum r^2) = 1, which never passes the root.
  // A long last step has lost digits (3000 equal scores in f32: three of them): take another from where it leads.
  template <class R>
  FOVEA_HD static Step<R> step(const Sums<R>& s) {
    const R over = s.second - 1, discriminant = s.first * s.first - s.count * over;
    const R exact = over / (s.first + std::sqrt(discriminant < 0 ? R{0} : discriminant));
    const bool last = over <= 0 || (discriminant >= 0 && exact < s.least);
    const R newton = (s.second - std::sqrt(s.second)) / s.first;
    return {s.count == 0 ? R{0} : (last ? exact : newton), last};
  }
  template <class R>
  FOVEA_HD static R weigh(R x, R tau) {
    const R r = x - tau;
    return x < tau ? R{0} : r * r;
  }
  // `mean` of the gradients, weighted with root = sqrt(weight)
  template <class R>
  FOVEA_HD static R vjp(R root, R grad, R mean) {
    return root == 0 ? R{0} : root * (grad - mean);
  }
};

// w = a p, p = softmax(s), a = (s - low) / (high - low), low = min(0, smallest), high = max(0, largest).
// Scores that are all 0 weigh nothing.
template <class R>
struct SelfAdjustNormalized {
  R low, inverse;  // 1 / (high - low), or 0

  FOVEA_HD static SelfAdjustNormalized of(R smallest, R largest) {
    const R low = smallest < 0 ? smallest : R{0}, width = (largest > 0 ? largest : R{0}) - low;
    return {low, width < std::numeric_limits<R>::min() ? R{0} : 1 / width};
  }
  FOVEA_HD R factor(R score) const { return (score - low) * inverse; }
  FOVEA_HD R weigh(R score, R p) const { return p == 0 ? R{0} : p * factor(score); }
  // With low and high held constant; `mean` = sum w grad.
  FOVEA_HD R vjp(R score, R p, R grad, R mean) const {
    return p == 0 ? R{0} : p * (grad * inverse + grad * factor(score) - mean);
  }
  // What the smallest (if negative) and the largest (if positive) score get for moving low and high; `plain` =
  // sum p grad.
  FOVEA_HD R vjp_smallest(R smallest, R mean, R plain) const { return smallest < 0 ? (mean - plain) * inverse : R{0}; }
  FOVEA_HD R vjp_largest(R largest, R mean) const { return largest > 0 ? -mean * inverse : R{0}; }
};

}  // namespace fovea

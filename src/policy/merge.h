#pragma once

#include <cmath>

#include "policy/math.h"

namespace fovea {

// Two parts of a softmax by their log-sum-exp, -infinity for an empty one.
template <class R>
struct MergeShares {
  R whole;  // the log-sum-exp of both
  R a, b;   // what the outputs of the parts are multiplied with; 0 for an empty one

  FOVEA_HD static bool is_empty(R part) { return part == -math::kInfinity<R>; }
  // 0 for an empty part, also when the whole row is empty.
  FOVEA_HD static R share(R part, R whole) { return is_empty(part) ? R{0} : std::exp(part - whole); }

  FOVEA_HD static MergeShares of(R a, R b) {
    const R top = a < b ? b : a;
    const R whole = is_empty(top) ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
    return {whole, share(a, whole), share(b, whole)};
  }
};

}  // namespace fovea

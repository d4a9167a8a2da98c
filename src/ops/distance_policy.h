#pragma once

#include "policy/hd.h"

// Distances of two numbers, from their difference, and their slopes.
namespace fovea::policy {

struct SquaredDistance {
  template <class R>
  FOVEA_HD static R apply(R difference) {
    return difference * difference;
  }
  template <class R>
  FOVEA_HD static R slope(R difference) {
    return 2 * difference;
  }
};

struct AbsoluteDistance {
  template <class R>
  FOVEA_HD static R apply(R difference) {
    return difference < 0 ? -difference : difference;
  }
  // NaN goes through.
  template <class R>
  FOVEA_HD static R slope(R difference) {
    return difference > 0 ? R(1) : difference < 0 ? R(-1) : difference;
  }
};

}  // namespace fovea::policy

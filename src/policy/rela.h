#pragma once

#include "policy/math.h"

namespace fovea {

// Rectified linear attention: weight = max(score, 0), no maximum, no normaliser (the norm outside does that work).
struct Rela {
  static constexpr bool kHasTop = false;
  template <class R>
  static constexpr R kUnit = R{1};
  template <class R>
  static constexpr R kFloor = R{0};

  template <class R>
  FOVEA_HD static R fold(R, R) {
    return R{1};
  }
  template <class R>
  FOVEA_HD static R weigh(R score, R) {
    return score < 0 ? R{0} : score;  // a NaN stays one
  }
  template <class R>
  FOVEA_HD static R close(R) {
    return R{1};
  }
  template <class R>
  FOVEA_HD static R statistic(R, R) {
    return R{0};
  }
  template <class R>
  FOVEA_HD static R reopen(R) {
    return R{0};
  }
  template <class R>
  FOVEA_HD static R again(R score, R) {
    return weigh(score, R{0});
  }
  template <class R>
  FOVEA_HD static R pull(R score, R, R grad, R) {
    return score > 0 ? grad : R{0};
  }
};

}  // namespace fovea

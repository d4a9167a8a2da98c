#pragma once

#include "policy/math.h"

namespace fovea {

// Attention with linear biases: the score loses `slope` per position of distance.
struct Alibi {
  template <class R>
  FOVEA_HD static R apply(R score, R slope, R distance) {
    return score - slope * math::absolute(distance);
  }
};

}  // namespace fovea

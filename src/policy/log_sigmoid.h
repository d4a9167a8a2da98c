#pragma once

#include "policy/math.h"

namespace fovea::policy {

// log(sigmoid(x)) = min(x, 0) - log(1 + e^-|x|).
struct LogSigmoid {
  // log(1 + e) for 0 <= e <= 1: 2 artanh(e / (2 + e)).
  template <class R>
  FOVEA_HD static R log1p(R e) {
    if constexpr (std::is_same_v<R, double>) {
      return std::log1p(e);
    } else {
      const R s = e / (2 + e), z = s * s;
      return 2 * s + s * z * math::horner(z, 0.666666746f, 0.39998877f, 0.286168665f, 0.214278802f, 0.243000075f);
    }
  }
  template <class R>
  FOVEA_HD static R apply(R x) {
    const R low = x < 0 ? x : R{0};
    return low - log1p(math::exp(-math::absolute(x)));
  }
  template <class R>
  FOVEA_HD static R slope(R x) {
    return math::sigmoid(-x);
  }
};

}  // namespace fovea::policy

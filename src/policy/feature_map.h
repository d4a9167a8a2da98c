#pragma once

#include "policy/hd.h"
#include "policy/math.h"

// Feature maps of linear attention. `slope` is the derivative expressed through the feature value, so that backward
// needs the features alone and not the inputs.
namespace fovea::policy {

struct IdentityMap {
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x;
  }
  template <class R>
  FOVEA_HD static R slope(R) {
    return R{1};
  }
};

struct EluPlusOneMap {
  template <class R>
  FOVEA_HD static R apply(R x) {
    const R below = math::exp2_low(x * math::kLog2e<R>);
    return x > 0 ? x + 1 : below;
  }
  template <class R>
  FOVEA_HD static R slope(R feature) {
    return feature < 1 ? feature : R{1};
  }
};

struct EluMap {
  template <class R>
  FOVEA_HD static R apply(R x) {
    const R below = math::expm1(x);
    return x > 0 ? x : below;
  }
  template <class R>
  FOVEA_HD static R slope(R feature) {
    return feature < 0 ? feature + 1 : R{1};
  }
};

struct ReluMap {
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x < 0 ? R{0} : x;  // a NaN goes through
  }
  template <class R>
  FOVEA_HD static R slope(R feature) {
    return feature > 0 ? R{1} : R{0};
  }
};

}  // namespace fovea::policy

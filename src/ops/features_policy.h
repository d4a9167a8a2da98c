#pragma once

#include "ops/features.h"
#include "policy/math.h"

namespace fovea {

// What products with directions are multiplied with: exponentials of two are cheaper than of e.
inline double feature_unit(FeatureMap map) { return map == FeatureMap::exponential ? math::kLog2e<double> : 1.0; }

inline constexpr double kUnitEps = 1e-3;  // beside |x|, where x is divided by it

}  // namespace fovea

#pragma once

#include "ops/features.h"
#include "policy/math.h"

namespace fovea {

// What products with directions are multiplied with: exponentials of two are cheaper than of e.
inline double feature_unit(FeatureMap map) { return map == FeatureMap::exponential ? math::kLog2e<double> : 1.0; }

// The row of `levels` that row t of a sequence reads.
FOVEA_HD inline std::int64_t level_row(const FeatureLevels::Span& span, bool in_order, std::int64_t t) {
  return in_order && t + span.offset >= 0 ? span.first + t + span.offset : span.floor;
}

// |z|^2 / 2 from which on nothing may be left of an exponential in f32: no product with a direction makes up for more
// of it than |w|^2 / 2, and few for much.
inline constexpr double kFaint = 30.0;

inline constexpr double kUnitEps = 1e-3;  // beside |x|, where x is divided by it

}  // namespace fovea

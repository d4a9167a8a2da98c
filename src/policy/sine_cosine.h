#pragma once

#include "policy/math.h"

namespace fovea::math {

// Sine and cosine of |x| < 2^13 (float); the error grows with |x| as that of x itself does.
template <class R>
struct SineCosine {
  R sine, cosine;
};
template <class R>
FOVEA_HD inline SineCosine<R> sine_cosine(R x) {
  if constexpr (std::is_same_v<R, double>) {
    return {std::sin(x), std::cos(x)};
  } else {
    const Rounded<R> n = round_to_integer(x * 0.63661977f);  // x = n pi / 2 + r; the first two parts times n are exact
    const R r = x - n.value * 0x1.92p0f - n.value * 0x1.fb4p-12f - n.value * 0x1.4442d2p-24f, z = r * r;
    const R s = r + r * z * horner(z, -0.16666655f, 0.008332173f, -0.00019516653f);
    const R c = 1 + z * (-0.5f + z * horner(z, 0.041666646f, -0.0013887362f, 2.4437724e-05f));
    const bool odd = (n.raw & 1u) != 0;
    const R sine = odd ? c : s, cosine = odd ? s : c;
    return {(n.raw & 2u) != 0 ? -sine : sine, ((n.raw + 1u) & 2u) != 0 ? -cosine : cosine};
  }
}

}  // namespace fovea::math

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "policy/hd.h"

// Elementary functions as branch-free scalar code over R = float or double. In loops the compiler vectorises them for
// whatever target the loop is compiled for; on the device they are used as they are. Float versions call no libm and
// are within 2 units in the last place of their range; double ones are within 1e-15. NaN goes through; results below
// the normal range may be flushed to zero.
namespace fovea::math {

template <class R>
struct Real;  // what the bit tricks need to know
template <>
struct Real<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer that stands in the low bits
  static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // high * n is exact for |n| < 2^10
};
template <>
struct Real<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr double kRound = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
};

template <class R>
inline constexpr R kLog2e = static_cast<R>(1.4426950408889634074);
template <class R>
inline constexpr R kLn2 = static_cast<R>(0.69314718055994530942);
template <class R>
inline constexpr R kInfinity = std::numeric_limits<R>::infinity();

// c0 + x (c1 + x (c2 + ...))
template <class R>
FOVEA_HD constexpr R horner(R, R last) {
  return last;
}
template <class R, class... Rest>
FOVEA_HD constexpr R horner(R x, R first, Rest... rest) {
  return first + x * horner(x, rest...);
}

template <class R>
FOVEA_HD inline R absolute(R x) {
  return x < 0 ? -x : x;
}
template <class R>
FOVEA_HD inline R larger(R a, R b) {  // b when a is NaN; a when b is: put the value that must survive second
  return a > b ? a : b;
}

// The nearest integer of x, |x| < 2^22 (2^51): as a value, and in the low bits of `raw`.
template <class R>
struct Rounded {
  R value;
  typename Real<R>::Bits raw;
};
template <class R>
FOVEA_HD inline Rounded<R> round_to_integer(R x) {
  const R shifted = x + Real<R>::kRound;
  return {shifted - Real<R>::kRound, std::bit_cast<typename Real<R>::Bits>(shifted)};
}

// 2^n for the n in `raw`; n = -bias gives 0, n = bias + 1 infinity.
template <class R>
FOVEA_HD inline R power_of_two(typename Real<R>::Bits raw) {
  using Bits = typename Real<R>::Bits;
  return std::bit_cast<R>((raw + static_cast<Bits>(Real<R>::kBias)) << Real<R>::kMantissa);
}

// (2^f - 1) / f on [-1/2, 1/2]: 7e-9 (1e-17) of minimax error.
template <class R>
FOVEA_HD inline R exp2_core(R f) {
  if constexpr (std::is_same_v<R, float>) {
    return horner(f, 0.6931471824645996f, 0.24022650718688965f, 0.055503569543361664f, 0.009618030861020088f,
                  0.0013390866806730628f, 0.00015469583740923554f);
  } else {
    return horner(f, 0.69314718055994530912, 0.24022650695910098225, 0.055504108664821654363, 0.0096181291076068861297,
                  0.0013333558146397735731, 0.00015403530441739261918, 0.000015252733851334241669,
                  1.3215442586303071985e-6, 1.0178052619635572571e-7, 7.0725862243316596964e-9,
                  4.4565326396813993356e-10);
  }
}

// (e^r - 1) / r on [-ln 2 / 2, ln 2 / 2]: 1e-8 (2e-17).
template <class R>
FOVEA_HD inline R expm1_core(R r) {
  if constexpr (std::is_same_v<R, float>) {
    return horner(r, 1.0f, 0.5f, 0.16666504740715027f, 0.041666243225336075f, 0.008369156159460545f,
                  0.0013948456617072225f);
  } else {
    return horner(r, 1.0, 0.50000000000000056222, 0.16666666666666689027, 0.041666666666573075162,
                  0.0083333333333141296411, 0.0013888888932511445329, 0.00019841269902794113165,
                  0.000024801504318651119782, 2.7557228793556290758e-6, 2.7626368850477587238e-7,
                  2.5114074812054023613e-8);
  }
}

// 2^x for x <= 127 (1023), the form of the hot loops: one clamp, and exactly 0 below the normal range.
template <class R>
FOVEA_HD inline R exp2_low(R x) {
  constexpr R kLowest = -Real<R>::kBias;
  x = x < kLowest ? kLowest : x;
  const Rounded<R> n = round_to_integer(x);
  const R f = x - n.value;
  return power_of_two<R>(n.raw) * (1 + f * exp2_core(f));
}

// Arguments of the functions below are clamped to exponents [1 - bias, bias + 1.4]: the ends give 0 and infinity
// because the scale is halved, 2^(n - 1).
template <class R>
FOVEA_HD inline R clamp_exponent(R x, R unit) {
  const R lowest = (1 - Real<R>::kBias) * unit, highest = (Real<R>::kBias + static_cast<R>(1.4)) * unit;
  x = x < lowest ? lowest : x;
  return x > highest ? highest : x;
}

template <class R>
FOVEA_HD inline R exp2(R x) {
  x = clamp_exponent(x, R{1});
  const Rounded<R> n = round_to_integer(x);
  const R f = x - n.value;
  return 2 * (power_of_two<R>(n.raw - 1) * (1 + f * exp2_core(f)));
}

// e^x = 2 half (1 + tail).
template <class R>
struct Exponential {
  R tail;  // e^r - 1, x = n ln 2 + r
  R half;  // 2^(n - 1)
};
template <class R>
FOVEA_HD inline Exponential<R> split_exp(R x) {
  x = clamp_exponent(x, kLn2<R>);
  const Rounded<R> n = round_to_integer(x * kLog2e<R>);
  const R r = x - n.value * Real<R>::kLn2High - n.value * Real<R>::kLn2Low;
  return {r * expm1_core(r), power_of_two<R>(n.raw - 1)};
}

template <class R>
FOVEA_HD inline R exp(R x) {
  const Exponential<R> e = split_exp(x);
  return 2 * (e.half * (1 + e.tail));
}

// e^x - 1 without cancellation near 0.
template <class R>
FOVEA_HD inline R expm1(R x) {
  const Exponential<R> e = split_exp(x);
  return 2 * (e.half * e.tail + (e.half - static_cast<R>(0.5)));
}

template <class R>
FOVEA_HD inline R tanh(R x) {
  const R t = expm1(-2 * absolute(x));
  const R y = -t / (2 + t);
  return x < 0 ? -y : y;
}

template <class R>
FOVEA_HD inline R sigmoid(R x) {
  const R e = exp(-absolute(x));
  const R y = 1 / (1 + e);
  return x < 0 ? e * y : y;
}

template <class R>
FOVEA_HD inline R erf(R x) {
  if constexpr (std::is_same_v<R, double>) {
    return std::erf(x);
  } else {
    // erf(a) = 1 - e^(-a E(a)); E is smooth, and 1 within half a unit from 3.95 on.
    R a = absolute(x);
    a = a > 3.95f ? 3.95f : a;
    const R e = horner(a, 1.128379225730896f, 0.6366193890571594f, 0.10277783125638962f, -0.0191530529409647f,
                       -0.00016041670460253954f, 0.0016670497134327888f, -0.0006328498711809516f,
                       0.0001176451551145874f, -9.256723387807142e-06f);
    const R y = -expm1(-a * e);
    return x < 0 ? -y : y;
  }
}

// The natural logarithm of x >= 0.
template <class R>
FOVEA_HD inline R log(R x) {
  if constexpr (std::is_same_v<R, double>) {
    return std::log(x);
  } else {
    const bool tiny = x < 0x1p-126f;
    const auto bits = std::bit_cast<std::uint32_t>(tiny ? x * 0x1p24f : x);
    // x = 2^n m with m in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) leaves n in the exponent field.
    constexpr std::uint32_t kRootHalf = 0x3f3504f3u;
    const auto n = static_cast<std::int32_t>(bits - kRootHalf) >> 23;
    const R m = std::bit_cast<R>(bits - (static_cast<std::uint32_t>(n) << 23));
    const R s = (m - 1) / (m + 1), z = s * s;
    const R tail =
        s * z * horner(z, 0.6666666865348816f, 0.4000012278556824f, 0.2855072319507599f, 0.23332752287387848f);
    const R exponent = static_cast<R>(n) - (tiny ? 24.0f : 0.0f);
    const R y = exponent * Real<R>::kLn2High + (2 * s + (tail + exponent * Real<R>::kLn2Low));
    const R special = x == 0 ? -kInfinity<R> : x;  // infinity and NaN go through
    return x > 0 && x < kInfinity<R> ? y : (x < 0 ? std::numeric_limits<R>::quiet_NaN() : special);
  }
}

}  // namespace fovea::math

#pragma once

#include "policy/hd.h"
#include "policy/math.h"

// Activations with their slopes. `slope` takes what is cheaper to keep for backward: the output where kFromOutput, else
// the input.
namespace fovea::policy {

struct Identity {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x;
  }
  template <class R>
  FOVEA_HD static R slope(R) {
    return R(1);
  }
};

struct Relu {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x < 0 ? R(0) : x;
  }  // NaN goes through
  template <class R>
  FOVEA_HD static R slope(R y) {
    return y > 0 ? R(1) : R(0);
  }
};

// x Phi(x), Phi the normal distribution function.
struct Gelu {
  static constexpr bool kFromOutput = false;
  template <class R>
  FOVEA_HD static R normal(R x) {
    return R(0.5) + R(0.5) * math::erf(x * R(0.70710678118654752440));
  }
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x * normal(x);
  }
  template <class R>
  FOVEA_HD static R slope(R x) {
    const R density = R(0.39894228040143267794) * math::exp(R(-0.5) * x * x);
    return normal(x) + x * density;
  }
};

// The tanh form of the same: x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static constexpr bool kFromOutput = false;
  static constexpr double kScale = 2 * 0.79788456080286535588, kCube = 0.044715;
  template <class R>
  FOVEA_HD static R gate(R x) {
    return math::sigmoid(R(kScale) * (x + R(kCube) * x * x * x));
  }
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x * gate(x);
  }
  template <class R>
  FOVEA_HD static R slope(R x) {
    const R s = gate(x);
    return s + x * s * (1 - s) * R(kScale) * (1 + 3 * R(kCube) * x * x);
  }
};

struct Silu {
  static constexpr bool kFromOutput = false;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x * math::sigmoid(x);
  }
  template <class R>
  FOVEA_HD static R slope(R x) {
    const R s = math::sigmoid(x);
    return s + x * s * (1 - s);
  }
};

// x sigmoid(1.702 x): the approximation of GELU that CLIP was trained with.
struct GeluQuick {
  static constexpr bool kFromOutput = false;
  static constexpr double kSteepness = 1.702;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x * math::sigmoid(R(kSteepness) * x);
  }
  template <class R>
  FOVEA_HD static R slope(R x) {
    const R s = math::sigmoid(R(kSteepness) * x);
    return s + R(kSteepness) * x * s * (1 - s);
  }
};

struct ReluSquared {
  static constexpr bool kFromOutput = false;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x < 0 ? R(0) : x * x;
  }  // NaN goes through
  template <class R>
  FOVEA_HD static R slope(R x) {
    return x > 0 ? 2 * x : R(0);
  }
};

struct Elu {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x > 0 ? x : math::expm1(x);
  }
  template <class R>
  FOVEA_HD static R slope(R y) {
    return y > 0 ? R(1) : 1 + y;
  }
};

// 1 + elu: the positive feature map of linear attention.
struct EluPlusOne {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return x > 0 ? 1 + x : math::exp(x);
  }
  template <class R>
  FOVEA_HD static R slope(R y) {
    return y > 1 ? R(1) : y;
  }
};

struct Tanh {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return math::tanh(x);
  }
  template <class R>
  FOVEA_HD static R slope(R y) {
    return 1 - y * y;
  }
};

struct Sigmoid {
  static constexpr bool kFromOutput = true;
  template <class R>
  FOVEA_HD static R apply(R x) {
    return math::sigmoid(x);
  }
  template <class R>
  FOVEA_HD static R slope(R y) {
    return y * (1 - y);
  }
};

}  // namespace fovea::policy

#pragma once

#include "core/cuda/mma.cuh"
#include "ops/activation_policy.h"

// Activations of values that are rounded to 16 bits: within a few units of f32, by the card's own exponential.
namespace fovea::device {

__device__ inline float quick_sigmoid(float x) { return __fdividef(1.0f, 1.0f + quick_exp2(-x * math::kLog2e<float>)); }

struct QuickSilu {
  static constexpr bool kFromOutput = false;
  __device__ static float apply(float x) { return x * quick_sigmoid(x); }
  __device__ static float slope(float x) {
    const float s = quick_sigmoid(x);
    return s + x * s * (1.0f - s);
  }
};

struct QuickGelu {
  static constexpr bool kFromOutput = false;
  // As math::erf, by one exponential.
  __device__ static float normal(float x) {
    const float a = fabsf(x) * 0.70710678f;
    const float e = math::horner(a, 1.128379225730896f, 0.6366193890571594f, 0.10277783125638962f, -0.0191530529409647f,
                                 -0.00016041670460253954f, 0.0016670497134327888f, -0.0006328498711809516f,
                                 0.0001176451551145874f, -9.256723387807142e-06f);
    const float rest = a > 3.95f ? 0.0f : 0.5f * quick_exp2(-a * e * math::kLog2e<float>);
    return x < 0 ? rest : 1.0f - rest;
  }
  __device__ static float apply(float x) { return x * normal(x); }
  __device__ static float slope(float x) {
    return normal(x) + x * 0.39894228f * quick_exp2(-0.5f * math::kLog2e<float> * x * x);
  }
};

// f<P, R>() for an activation and the wide type of a tensor.
template <class F>
void visit_activation_of(Activation activation, DType dtype, const F& f) {
  const bool is_narrow = dtype == DType::bf16 || dtype == DType::f16;
  if (is_narrow && (activation == Activation::silu || activation == Activation::swish))
    return f.template operator()<QuickSilu, float>();
  if (is_narrow && activation == Activation::gelu) return f.template operator()<QuickGelu, float>();
  visit_wide(dtype,
             [&]<class R>() { visit_activation(activation, [&]<class P>() { f.template operator()<P, R>(); }); });
}

}  // namespace fovea::device

#pragma once

#include <vector>

#include "fovea/tensor.h"

// What an optimiser does to all parameters, each in one call: lists of dense f32 and f64 tensors, an entry for each
// parameter. Numbers that change from step to step are f64 tensors beside them: a recorded step reads new ones.
// `go`, an i64 scalar: 0 leaves everything as it is; undefined: go on.
namespace fovea::kernels {

struct AdamWConstants {
  double beta1, beta2, eps;
};
// What a step has of its own, bias corrections folded in: the three numbers of `pace`.
struct AdamWPace {
  double step_size;  // rate / (1 - beta1^t)
  double root_size;  // 1 / sqrt(1 - beta2^t)
  double rate;
};
struct AdamWTensors {
  Tensor value, grad, first, second;  // of one shape and dtype
  double decay;                       // decoupled: the parameter shrinks by 1 - rate * decay
  double pull;                        // the weight decay as a part of the gradient, for the other kind
};
struct AdamWUpdate {
  AdamWConstants constants;
  std::vector<AdamWTensors> parameters;
  Tensor pace;
  Tensor go = {};
};
template <Device>
void adamw(const Context& context, const AdamWUpdate& io);

// average += share (value - average); the value itself for a share of 1, which a + (w - a) is not always.
struct AverageUpdate {
  Tensor share;
  std::vector<Tensor> averages, values;
  Tensor go = {};
};
template <Device>
void move_averages(const Context& context, const AverageUpdate& io);

// Exchanges the contents of each a and b. Does not stop half way.
struct Exchange {
  std::vector<Tensor> a, b;
};
template <Device>
void exchange(const Context& context, const Exchange& io);

// norm, f64 scalar: the L2 norm of all gradients together. Sums are f64, in an order that the shapes decide.
struct GradientNorm {
  std::vector<Tensor> grads;
  Tensor norm;
};
template <Device>
void gradient_norm(const Context& context, const GradientNorm& io);

// Gradients times limit / norm, where the norm is finite and above the limit.
struct NormClip {
  std::vector<Tensor> grads;
  Tensor norm;
  double limit;
};
template <Device>
void clip_norm(const Context& context, const NormClip& io);

// Every entry within [-limit, limit].
struct ValueClip {
  std::vector<Tensor> grads;
  double limit;
  Tensor go = {};
};
template <Device>
void clip_value(const Context& context, const ValueClip& io);

// Gradients times a factor; finite, f64 scalar: 1 where all of them were, else 0.
struct Unscale {
  std::vector<Tensor> grads;
  Tensor factor;
  Tensor finite;
};
template <Device>
void unscale(const Context& context, const Unscale& io);

}  // namespace fovea::kernels

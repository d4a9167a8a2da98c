#pragma once

#include <span>
#include <vector>

#include "fovea/tensor.h"
#include "ops/spans.h"

// Kernels of rows that go to experts and come back. Tensors are dense; index i32 (m) names rows without repeats.
namespace fovea::kernels {

// Who goes where: every row that is no padding prefers an expert, which takes rows in order until it is full.
struct Routed {
  std::vector<std::int32_t> expert;  // of each row; -1 for padding
  std::vector<std::int32_t> kept;    // rows, expert after expert
  std::vector<std::int64_t> begin;   // first of each expert in `kept`; one more at the end
  std::vector<double> share;         // of the tokens that prefer each expert
  double tokens = 0.0;               // number of them
  std::int64_t dropped = 0;          // rows that found their expert full
};
struct RouteRows {
  Tensor p;                     // (rows, experts), wide type: probabilities
  std::span<const Span> spans;  // (rows)
  std::int64_t capacity;
};
template <Device>
Routed route(const Context& context, const RouteRows& io);

// gates (kept): the probability each was taken with; balance, a scalar: experts * sum over e of share_e (mean of p_e).
struct RouteGates {
  const Routed* routed;
  Tensor p, gates, balance;
};
template <Device>
void route_gates(const Context& context, const RouteGates& io);
// d (rows, experts), zero: the gradient of the logits whose softmax p is. Either of the gradients may be undefined.
struct RoutePull {
  const Routed* routed;
  Tensor p, d_gates, d_balance, d;
};
template <Device>
void route_backward(const Context& context, const RoutePull& io);

// y at row index_i = scale_i values_i; the other rows are left alone. scale (m) is in the wide type, or undefined.
struct Scatter {
  Tensor values, index, scale, y;
};
template <Device>
void scatter_rows(const Context& context, const Scatter& io);

// d_values_i = scale_i g at row index_i, and d_scale_i = its product with values_i. Both d may be undefined.
struct ScatterPull {
  Tensor g, values, index, scale;
  Tensor d_values, d_scale;
};
template <Device>
void scatter_rows_backward(const Context& context, const ScatterPull& io);

// y_i = x_i (1 + amount (2 u_i - 1)), u_i from word i % 4 of philox(seed, i / 4, stream).
struct Jitter {
  double amount;
  std::uint64_t seed, stream;
};
struct JitterTensors {
  Jitter noise;
  Tensor x, y;
};
template <Device>
void jitter(const Context& context, const JitterTensors& io);

}  // namespace fovea::kernels

#pragma once

#include <span>

#include "fovea/tensor.h"
#include "ops/spans.h"

// Kernels of rows that go to experts and come back. Tensors are dense; index i32 (m) names rows without repeats, -1
// none.
namespace fovea::kernels {

// Who goes where: every row that is no padding prefers an expert, which takes rows in order until it is full.
struct Routed {
  Tensor expert;   // i32 (rows): of each row; -1 for padding
  Tensor tokens;   // i32 (rows): those that are taken, expert after expert; -1 after the last
  Tensor begin;    // i32 (experts + 1): first of each expert in `tokens`
  Tensor share;    // f64 (experts): of the rows that prefer each expert
  Tensor counted;  // f64 scalar: number of rows that prefer one
  Tensor dropped;  // i32 scalar: rows that found their expert full
};
// gates (rows), in the order of `tokens`: the probability each was taken with, 0 after the last; balance, a scalar:
// experts * sum over e of share_e (mean of p_e).
struct RouteRows {
  Tensor p;                     // (rows, experts), wide type: probabilities
  std::span<const Span> spans;  // (rows)
  std::int64_t capacity;
  Routed routed;
  Tensor gates, balance;
};
template <Device>
void route(const Context& context, const RouteRows& io);

// d (rows, experts), zero: the gradient of the logits whose softmax p is. Either of the gradients may be undefined.
struct RoutePull {
  Routed routed;
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

// d_values_i = scale_i g at row index_i, and d_scale_i = its product with values_i; 0 for none. Both d may be
// undefined.
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
  const std::uint64_t* shift = nullptr;  // on the device: what a recorded step adds to the stream
};
struct JitterTensors {
  Jitter noise;
  Tensor x, y;
};
template <Device>
void jitter(const Context& context, const JitterTensors& io);

}  // namespace fovea::kernels

#pragma once

#include "fovea/tensor.h"

// The loops of rows that go to experts and come back. Tensors are dense; index i32 (m) names rows without repeats.
namespace fovea::cpu {

// y at row index_i = scale_i values_i; the other rows are left alone. scale (m) is in the wide type, or undefined.
struct Scatter {
  Tensor values, index, scale, y;
};
void scatter_rows(const Context& context, const Scatter& io);

// d_values_i = scale_i g at row index_i, and d_scale_i = its product with values_i. Both d may be undefined.
struct ScatterPull {
  Tensor g, values, index, scale;
  Tensor d_values, d_scale;
};
void scatter_rows_backward(const Context& context, const ScatterPull& io);

// y_i = x_i (1 + amount (2 u_i - 1)), u_i from word i % 4 of philox(seed, i / 4, stream).
struct Jitter {
  double amount;
  std::uint64_t seed, stream;
};
void jitter(const Context& context, const Jitter& noise, const Tensor& x, const Tensor& y);

}  // namespace fovea::cpu

#pragma once

#include <span>

#include "fovea/tensor.h"
#include "ops/spans.h"

// The three products along diagonals; each makes one of its three tensors from the other two.
namespace fovea::kernels {

struct DiagonalTensors {
  std::span<const std::int64_t> offsets;
  std::span<const Span> spans;  // (b n)
  bool ring;
  double scale;
  Tensor x;        // (b, n, h, d), last axis dense: the side of the rows i
  Tensor y;        // (b, n, kv_h, d), last axis dense: the side of the rows i + offset
  Tensor weights;  // (b, n, h, offsets), dense
};

// weights_ic = scale x_i . y_(i + offset_c), `outside` where there is no such row.
template <Device>
void diagonal_dots(const Context& context, const DiagonalTensors& io, double outside);
// x_i = scale sum_c weights_ic y_(i + offset_c).
template <Device>
void diagonal_mix(const Context& context, const DiagonalTensors& io);
// y_j = scale sum_c weights_ic x_i over the rows i with i + offset_c = j, and over the heads of x that share one of y.
// Every y_j gathers its own sum, in the order of the heads and offsets.
template <Device>
void diagonal_mix_back(const Context& context, const DiagonalTensors& io);

}  // namespace fovea::kernels

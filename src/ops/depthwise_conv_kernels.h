#pragma once

#include <span>

#include "fovea/tensor.h"
#include "ops/spans.h"

// Kernels of convolutions of each channel by itself: tap t of row i meets row i + first + t of its sequence.
namespace fovea::kernels {

struct ConvTensors {
  std::span<const Span> spans;  // (b n)
  std::int64_t first;
  Tensor x;     // (b, n, heads, d), each row of heads d dense
  Tensor taps;  // (taps, heads d), dense, in the wide type
  Tensor y;     // (b, n, heads, d), dense
};
// y_i = sum_t taps_t x_(i + first + t).
template <Device>
void convolve(const Context& context, const ConvTensors& io);

// (taps, heads d) in the wide type: sum_i y_i x_(i + first + t). `taps` of io is not read but for its shape.
template <Device>
Tensor tap_gradients(const Context& context, const ConvTensors& io, const RowList& sequences);

// Every channel's taps: from (heads, taps) or (heads, d, taps) -> to (taps, heads d), both dense in the wide type.
// Backward, to += from: sums over the channels that share taps.
struct Taps {
  Tensor from, to;
};
template <Device>
void spread_taps(const Context& context, const Taps& io);
template <Device>
void gather_taps(const Context& context, const Taps& io);

}  // namespace fovea::kernels

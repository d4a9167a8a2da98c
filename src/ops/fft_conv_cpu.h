#pragma once

#include <vector>

#include "fovea/tensor.h"
#include "ops/spans.h"

// The loops of convolutions by Fourier transforms.
namespace fovea::cpu {

// Sequences that are transformed at one size: a power of two, at least twice the longest.
struct FftGroup {
  std::int64_t size;
  // For every fourth size from `size` down to 4: w, w^2, w^3 for w = e^(-2 pi i j / size), j < size / 4. Wide type.
  Tensor twiddles;
  RowList sequences;
};

struct FftConv {
  std::vector<FftGroup> groups;
  Tensor u;  // (b, n, width), last axis dense
  Tensor k;  // (taps, width), dense, in the wide type
  Tensor y;  // (b, n, width), dense; rows of no sequence are not written
};
void fft_conv(const Context& context, const FftConv& io);

struct FftConvPull {
  FftConv forward;  // y is the gradient that came
  Tensor du;        // (b, n, width), dense, or undefined
  Tensor dk;        // (taps, width), zero, in the wide type, or undefined
};
void fft_conv_backward(const Context& context, const FftConvPull& io);

}  // namespace fovea::cpu

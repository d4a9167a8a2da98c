#pragma once

#include "fovea/tensor.h"

// Loops over the rows of dense (rows, width) tensors in which every channel has numbers of its own. These, and sums,
// are in the wide type.
namespace fovea::cpu {

struct RowRange {
  std::int64_t begin, end;
};

// sums (width) += (x - shift)^2.
void add_squares(const Tensor& x, const void* shift, RowRange rows, void* sums);

// sums (2, width) += g, and g (x - shift).
struct Upstream {
  Tensor g, x;
};
void add_vjp(const Upstream& io, const void* shift, RowRange rows, void* sums);

// out = from_x (x - shift) + offset + from_g g.
struct Mix {
  Tensor x, g, out;  // g may be undefined
};
enum Coefficient { kShift, kFromX, kOffset, kFromG, kCoefficients };
void mix_channels(const Mix& io, const void* coefficients, RowRange rows);  // coefficients (kCoefficients, width)

}  // namespace fovea::cpu

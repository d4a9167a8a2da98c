#pragma once

#include "mechanisms/gaussian.h"
#include "ops/spans.h"

namespace fovea::kernels {

// The columns of gaussian_features(): d of the row itself, then half its square, negative, in `parts` columns, and as
// many ones; the ones come first for keys.
struct GaussianColumns {
  std::int64_t d;
  int parts;
  Side side;

  GaussianColumns(std::int64_t d, DType dtype, Side side) : d(d), parts(size_of(dtype) == 2 ? 2 : 1), side(side) {}
  std::int64_t width() const { return d + 2 * parts; }
  std::int64_t square() const { return d + (side == Side::key ? parts : 0); }
  std::int64_t one() const { return d + (side == Side::key ? 0 : parts); }
  bool has_square() const { return side != Side::sample; }  // else 0 is in its place
};

// y (b, n, heads, width) of x (b, n, heads, d), last axes dense, for the rows of sequences.
struct Gaussian {
  Tensor x, y;
  Side side;
  const RowList* rows;
};
template <Device>
void gaussian_features(const Context& context, const Gaussian& io);

struct GaussianVjp {
  Tensor x, g, dx;
  Side side;
  const RowList* rows;
};
template <Device>
void gaussian_features_backward(const Context& context, const GaussianVjp& io);

}  // namespace fovea::kernels

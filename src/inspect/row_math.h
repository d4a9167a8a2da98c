#pragma once

#include <cstddef>
#include <cstdint>

#include "tile/contract.h"

// Sums over a row of scores or weights. Loops that are compiled for each instruction set; sums are of f32 for a few
// hundred numbers and of f64 beyond.
namespace fovea::inspection {

inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// What a row of scores becomes under a weight, up to a factor for softmax and its kin.
struct RowWeighing {
  tile::Weight weight = tile::Weight::softmax;
  double offset = 0.0;
  int degree = 2;
};

// Over the exponentials e_j = e^(s_j - top) of a row; 0 for weights without a statistic.
struct RowSums {
  double exponentials = 0.0;  // sum e_j
  double weighted = 0.0;      // sum e_j (s_j - top)
};
// scores -> e_j (softmax), s_j e_j (self_adjust) or the weight itself; in place.
RowSums weigh_row(const RowWeighing& how, float* scores, std::int64_t n, float top);

// Sum of magnitudes; not finite when one of them is not.
double sum_magnitudes(const float* x, std::int64_t n);
double sum_signed(const float* x, std::int64_t n);
float largest_magnitude(const float* x, std::int64_t n);

// Magnitudes for which a maximum is kept.
inline constexpr std::int64_t kMaximumOf = 64;

// Adds up a row: x *= factor; magnitudes are added to `received` and `distance` (null: not wanted), [n] each; their
// maxima, one for each kMaximumOf, go to `maxima`. Returns the sum of |x| ln |x| where that is wanted.
struct RowTarget {
  double* received;
  double* distance;
  float* maxima;
  bool logarithms;
};
double add_row(float* x, std::int64_t n, float factor, const RowTarget& to);

}  // namespace fovea::inspection

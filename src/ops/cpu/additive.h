#pragma once

#include "fovea/dtype.h"

// The loops of additive scores s_j = vector . tanh(left + right_j), one query at a time.
namespace fovea::cpu {

// Of one type, f32 or f64: left and vector (width), right (count, width) with rows `stride` elements apart.
struct AdditiveRow {
  DType dtype;
  const void *left, *vector, *right;
  std::int64_t stride, count, width;
};
void additive_scores(const AdditiveRow& row, void* scores);

// Adds what ds (count) gives: d_left and d_vector (width), d_right laid out as right.
struct AdditiveVjp {
  void *d_left, *d_vector, *d_right;
};
void additive_vjp(const AdditiveRow& row, const void* ds, const AdditiveVjp& to);

}  // namespace fovea::cpu

#pragma once

#include <cstdint>

namespace fovea::cpu {

// The numbers of one AdamW step, bias corrections folded in.
struct AdamWStep {
  double beta1, beta2, eps;
  double shrink;     // 1 - rate * weight decay
  double step_size;  // rate / (1 - beta1^t)
  double root_size;  // 1 / sqrt(1 - beta2^t)
};

// A piece of one parameter with its gradient and moments.
template <class T>
struct AdamWPiece {
  T* value;
  const T* grad;
  T *first, *second;
  std::int64_t count;
};

void adamw_update(const AdamWStep& step, const AdamWPiece<float>& piece);
void adamw_update(const AdamWStep& step, const AdamWPiece<double>& piece);

double sum_of_squares(const float* x, std::int64_t count);
double sum_of_squares(const double* x, std::int64_t count);

}  // namespace fovea::cpu

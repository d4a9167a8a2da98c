#pragma once

#include <cstdint>

namespace fovea::cpu {

// The numbers of one AdamW step, bias corrections folded in.
struct AdamWStep {
  double beta1, beta2, eps;
  double shrink;     // 1 - rate * weight decay, for the decoupled kind
  double pull;       // the weight decay as a part of the gradient, for the other
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

// average += share (value - average).
template <class T>
struct AveragePiece {
  T* average;
  const T* value;
  std::int64_t count;
};
void average_update(const AveragePiece<float>& piece, double share);
void average_update(const AveragePiece<double>& piece, double share);

// x *= factor; are all of them finite?
bool scale_and_check(float* x, double factor, std::int64_t count);
bool scale_and_check(double* x, double factor, std::int64_t count);

double sum_of_squares(const float* x, std::int64_t count);
double sum_of_squares(const double* x, std::int64_t count);

}  // namespace fovea::cpu
